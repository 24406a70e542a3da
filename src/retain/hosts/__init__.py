"""The programs that agents run in, and their configuration: one entry in it is ours.

A host's file belongs to the person. It is read, one key is put in or taken out, and every other
byte stays; what cannot be understood is left alone, and the person is told what to paste.
"""

from retain.hosts.arguments import argv, value_of
from retain.hosts.installing import Plan, apply, plan
from retain.hosts.plugins import plugin
from retain.hosts.table import HOSTS, Host, Server, found

__all__ = [
    "HOSTS",
    "Host",
    "Plan",
    "Server",
    "apply",
    "argv",
    "found",
    "plan",
    "plugin",
    "value_of",
]
