"""Accounts of users at the servers behind a gateway: each logs in there, and the gateway keeps the tokens."""
