"""Tasks: calls of tools that outlive their request, kept in the store, and run by any process that shares it."""
