"""Replicas: the processes that serve one application and share its store."""
