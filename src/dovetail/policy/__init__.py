"""What may run, who said so, and the record of it; the host, the gateway and the console share it."""
