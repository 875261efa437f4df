"""A server over HTTP: one ASGI application for every client ever written."""
