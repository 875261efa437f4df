"""Audit log: append-only, hash-chained and verifiable."""
