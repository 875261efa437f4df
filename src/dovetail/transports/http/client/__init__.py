"""Client side of Streamable HTTP: requests, event streams and resumption."""
