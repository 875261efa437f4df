"""Definitions of a server as text: signatures of tools, one tool in full, and the report of `dovetail inspect`."""
