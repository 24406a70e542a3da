"""Git, and the only place that starts it: history read, commits made beside the user's work.

A repository is written by strangers, so nothing in its configuration may start a process: every
command runs from an absolute path with a scrubbed environment, no terminal, no hooks, no filters,
no network and a deadline. A commit is built in a private index, so staged work is never part of it.
"""

from retain.git.repository import Commit, Outcome, Repository

__all__ = ["Commit", "Outcome", "Repository"]
