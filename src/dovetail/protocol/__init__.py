"""The rules of the protocol, without I/O: what may be said, when, and by whom."""
