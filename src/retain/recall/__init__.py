"""From a question to ranked memories: text, vector and graph arms, one absolute score.

`searching` is the whole of it; `quick` is the text arm alone, for a hook.
"""
