"""Targets: commands, URLs, sockets and in-process servers that a client can connect to."""
