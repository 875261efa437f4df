"""`dovetail run --reload`: replace the server process while the client stays connected."""
