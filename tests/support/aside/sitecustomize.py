"""Has every Python process that a test starts write down what goes over Dovetail's connections in it.

Python imports this by itself where PYTHONPATH names its folder; `Processes` in tests/support/traffic.py reads what
was written. It must not change what a process does: it imports nothing until Dovetail is imported, keeps no file
open, and what it cannot write is lost.
"""

import os
import sys

FOLDER = os.environ.get("PYTHON_DOVETAIL_TRAFFIC", "")
WATCHED = "dovetail.runtime.connection"
SIDES = {"ServerConnection": b"server", "ClientSession": b"client"}
MOST_RECORDS, MOST_BYTES = 2_000, 200_000


class Finder:
    """Waits for the one module that is to be changed."""

    def find_spec(self, name, path=None, target=None):
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                listen(module.Connection)

            spec.loader.exec_module = exec_module
        return spec


def listen(connection):
    """Trace every connection of this process."""
    begin = connection.__init__
    file = os.path.join(FOLDER, f"{os.getpid()}-{os.urandom(4).hex()}")
    count = [0, 0]

    def begin_listened_to(self, sender, service, *, reader=None, trace=None, **options):
        names = [kind.__name__ for kind in type(service).__mro__]
        sides = [SIDES[name] for name in names if name in SIDES]
        if sides and reader is not None:  # without a reader it is HTTP
            count[0] += 1
            trace = told(trace, b"%d %s" % (count[0], sides[0]))
        begin(self, sender, service, reader=reader, trace=trace, **options)

    def told(trace, about):
        def tell(direction, line):
            if trace is not None:
                trace(direction, line)
            count[1] += 1
            if count[1] <= MOST_RECORDS and len(line) <= MOST_BYTES:
                write(b"%s %s %s\n" % (about, direction.encode(), bytes(line).replace(b"\n", b" ")))

        return tell

    def write(record):
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(handle, record)
            finally:
                os.close(handle)
        except OSError:
            pass

    connection.__init__ = begin_listened_to


if FOLDER:
    sys.meta_path.insert(0, Finder())
