"""The terminal application: a person's conversation with a model and the servers of a host."""
