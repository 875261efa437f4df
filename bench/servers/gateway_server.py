"""A gateway for the servers that its arguments name, each as NAME=TARGET."""

import sys

from serving import free_port

from dovetail import Gateway

servers = dict(argument.split("=", 1) for argument in sys.argv[1:])
print(port := free_port(), flush=True)
# All the sessions that are measured are of one client.
Gateway(servers).run("http", port=port, max_sessions_each=10_000)
