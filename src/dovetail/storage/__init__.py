"""Bytes that outlive a request, a connection or a process: entries, logs, a bus and leases."""
