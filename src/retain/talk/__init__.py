"""The chat's engine: a conversation that remembers, behind the terminal and the web page alike.

It knows of no screen and prints nothing: what happens during a reply comes out as events.
"""
