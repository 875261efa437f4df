"""Traffic between a client and its servers: messages paired into exchanges, and views of them."""
