"""The servers behind a gateway: their connections, credentials and failures."""
