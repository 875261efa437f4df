"""Multi-round-trip requests: handlers that ask the client for input while they run."""
