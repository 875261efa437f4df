"""`dovetail run FILE[:object]`."""

from __future__ import annotations

import argparse

from dovetail.cli.exit_status import OK
from dovetail.cli.options.load_server import serve_file, split_object


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("file", metavar="FILE[:object]", help="a Python file, and the server in it")
    parser.add_argument("--reload", action="store_true", help="serve the new code when a file changes")


def run(options: argparse.Namespace) -> int:
    """Serve over stdin and stdout."""
    path, name = split_object(options.file)
    if options.reload:
        from dovetail.cli.hot_reload.proxy import serve_and_reload

        return serve_and_reload(path, name)
    serve_file(path, name)
    return OK
