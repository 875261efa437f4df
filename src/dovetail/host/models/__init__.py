"""Models: what a host needs of one, and the libraries that reach them."""
