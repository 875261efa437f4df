"""Authoring of servers: tools, resources and prompts as plain Python functions."""
