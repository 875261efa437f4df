"""Signatures of handlers: schemas from type hints, and binding of JSON arguments; analysed once at registration."""
