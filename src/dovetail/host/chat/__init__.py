"""Chat: a conversation between a user and a model that may call the tools of the host."""
