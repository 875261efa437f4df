"""`dovetail host`: a chat at the terminal with a model that uses the servers of a host."""
