"""A conversation that remembers: prompt, model, tools and what is kept; for every chat door."""
