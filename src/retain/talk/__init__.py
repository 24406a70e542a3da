"""A conversation that remembers: prompt, model, tools and what is kept of it.

Used by every chat door.
"""
