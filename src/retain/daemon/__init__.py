"""A process that stays, and how others ask it."""
