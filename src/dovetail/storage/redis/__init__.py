"""Store in Redis or Valkey; needs the extra `redis`."""
