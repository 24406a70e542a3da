"""The files of a bank, which are the truth: read, written, versioned, trashed, committed."""
