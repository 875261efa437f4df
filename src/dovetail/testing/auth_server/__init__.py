"""A small authorization server for tests and development; anybody can log in as anybody, so not for anything real."""
