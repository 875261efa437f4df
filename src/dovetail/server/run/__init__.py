"""Running a server: stdio, sockets, uvicorn, worker processes and signals."""
