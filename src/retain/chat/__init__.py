"""The chat at a terminal: a screen for people, and a plain mode for pipes."""
