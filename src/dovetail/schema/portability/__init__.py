"""Portability of tool definitions: limits of clients and model APIs, and a check of definitions against them."""
