"""Thin adapters between a channel of the operating system and lines of bytes; strangers to each other."""
