"""The programs that agents run in, and the one entry of ours in their configuration."""
