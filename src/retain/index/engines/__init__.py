"""Index arms that live elsewhere: files stay the truth, and the embedded index stays complete."""
