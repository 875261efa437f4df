"""Client-side authorization: OAuth, token storage and browser login."""
