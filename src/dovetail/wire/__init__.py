"""Bytes and JSON-RPC envelopes: the one parse, the one dump, and the limits on both."""
