"""Values that handlers and callers see, the same on every revision of the protocol."""
