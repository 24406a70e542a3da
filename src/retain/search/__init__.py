"""From a question to ranked memories: text, vector and graph arms, one absolute score."""
