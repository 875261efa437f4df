"""A small authorization server for tests and development. Not for production: everyone can log in as any user."""
