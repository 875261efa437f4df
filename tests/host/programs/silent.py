"""A server that never answers."""

import sys

for _ in sys.stdin:
    pass
