"""What stands between a text and the bank, and between the bank and a reader."""
