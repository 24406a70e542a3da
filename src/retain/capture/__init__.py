"""From what was said in a session to memories that are worth proposing."""
