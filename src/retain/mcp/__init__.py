"""The MCP server: memory for any agent, over standard input and output or over HTTP."""
