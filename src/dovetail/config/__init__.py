"""Configuration files of MCP programs: found, read into server entries, edited in place."""
