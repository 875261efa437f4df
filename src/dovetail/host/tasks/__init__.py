"""Tasks of a host: calls that go on at a server, followed in the background and found again after a restart."""
