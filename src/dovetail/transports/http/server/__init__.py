"""Server side of Streamable HTTP: ASGI, responses and event streams."""
