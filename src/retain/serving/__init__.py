"""A process that lives on answers others on its bank's socket: one at a time, the next takes over.

One line of JSON in, one line out, for the same user and the same version of Retain only; whoever
is refused does without. `retain.warm` is the other end.
"""

from retain.serving.listening import Listener

__all__ = ["Listener"]
