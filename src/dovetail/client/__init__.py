"""Calling servers: of any era, over any transport."""
