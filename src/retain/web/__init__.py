"""The bank in a browser: pages for people, and the JSON interface that they use themselves."""
