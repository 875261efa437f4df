"""OAuth without I/O: flows that yield HTTP requests, and the rules for tokens, keys, proofs and addresses."""
