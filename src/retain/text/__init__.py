"""Pure functions on strings: chunks, tokens, links, dates, secrets and unsafe characters."""
