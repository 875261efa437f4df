"""`dovetail call TARGET TOOL key=value…`."""

from __future__ import annotations

import argparse
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Self

from dovetail.cli import output
from dovetail.cli.load.options import add_load_options, check_load_options
from dovetail.cli.options.client_options import add_client_options, run_with_client
from dovetail.cli.options.targets import add_target_argument
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import ProgressDisplay

if TYPE_CHECKING:
    from dovetail.cli.tasks.observed_task import ObservedTask
    from dovetail.client.client import Client
    from dovetail.types.tools import CallToolResult


def configure_call(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_target_argument(parser)
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument(
        "arguments", nargs="*", metavar="key=value", help="converted by the tool's schema; key:=JSON as it is"
    )
    parser.add_argument("--json", metavar="OBJECT", help="all arguments at once: JSON, @FILE, or - for stdin")
    parser.add_argument("--save", metavar="DIR", help="save images, audio and other bytes there")
    parser.add_argument(
        "--detach", action="store_true", help="leave a call that becomes a task running, and print its reference"
    )
    add_load_options(parser)
    add_client_options(parser)


def run_call(options: argparse.Namespace) -> int:
    """Call the tool."""
    from dovetail.cli.options.values import read_object

    check_load_options(options)
    if options.json is not None:
        if options.arguments:
            raise UsageError("give the arguments as key=value or with --json, not both")
        options.json = read_object(options.json)
    if options.detach and (options.load is not None or options.duration is not None):
        raise UsageError("--detach leaves one call running; it has no use with --load and --duration")
    from dovetail.cli.tasks.observed_task import ObservedTask

    # Whoever comes back to the task answers its questions.
    options.always_asks = options.detach
    options.observed = observed = ObservedTask(options)
    try:
        return run_with_client(options, _call_and_explain)
    except KeyboardInterrupt:
        if (report := observed.interrupted()) is not None:
            raise report from None
        raise


async def _call(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> int | None:
    arguments = options.json
    if arguments is None:
        arguments = await _arguments(client, options)
    if options.load is not None or options.duration is not None:
        from dovetail.cli.load.runner import run_load

        return await run_load(client, options, arguments, display)
    if options.detach:
        from dovetail.cli.tasks.detach import detach

        return await detach(client, options, arguments, display)
    await _call_once(client, options, arguments, display)
    return None


class _HeldWarnings(logging.Filter):
    """Holds back what is logged to one logger during a block; `release` logs it after all."""

    def __init__(self, logger: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(logger)
        self._held: list[logging.LogRecord] = []

    def __enter__(self) -> Self:
        self._logger.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a record; it is not logged now."""
        self._held.append(record)
        return False

    def release(self) -> None:
        """Log what was held back, and hold nothing back from now on."""
        self._logger.removeFilter(self)
        for record in self._held:
            self._logger.handle(record)


async def _call_and_explain(client: Client, options: argparse.Namespace, display: ProgressDisplay) -> int | None:
    """Call the tool; if it is not there, warn of the servers behind a gateway that are missing, as one may have it."""
    from dovetail.client.listing import MISSING_SERVERS_LOGGER
    from dovetail.protocol.errors import DovetailError, NotFound

    with _HeldWarnings(MISSING_SERVERS_LOGGER) as held:
        try:
            return await _call(client, options, display)
        except NotFound:
            # A handler of a tool that is there raises it too.
            with contextlib.suppress(DovetailError):
                if all(tool.name != options.tool for tool in await client.tools()):
                    held.release()
            raise


async def _call_once(
    client: Client, options: argparse.Namespace, arguments: dict[str, Any], display: ProgressDisplay
) -> None:
    from dovetail.protocol.errors import ConnectionLost

    observed: ObservedTask = options.observed
    observed.observe(client, display)

    def progress(done: float, total: float | None, message: str | None) -> None:
        if observed.is_task:
            # Its progress is its status, which is text.
            display.message(message or "")
        else:
            display.progress(done, total, message)

    try:
        async with display.activity(f"Calling {options.tool}"):
            result = await client.call(options.tool, arguments, progress=progress)
    except ConnectionLost:
        if observed.is_task:
            display.note(observed.leave())
        raise
    display.end_progress()
    show_call_result(result, options)


def show_call_result(result: CallToolResult, options: argparse.Namespace) -> None:
    """Print a result, for users or for scripts."""
    if options.format == "json":
        output.show_json(as_json(result))
    else:
        show(result, options.save)


async def _arguments(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    from dovetail.cli.options.known_names import remember_names
    from dovetail.cli.options.values import read_arguments

    if not options.arguments:
        return {}
    schemas = {each.name: each.input_schema for each in await client.tools()}
    remember_names(options.target, "tools", schemas)
    return read_arguments(options.arguments, schemas.get(options.tool, {}))


def as_json(result: CallToolResult) -> dict[str, Any]:
    """A result for scripts; `structuredContent` is the bare value on every revision."""
    from dovetail.types.serialization import dump
    from dovetail.types.tools import DATA_MARK

    data = result.data
    shown = dump(result)
    shown.setdefault("content", [])
    shown.setdefault("isError", False)
    shown.pop("resultType", None)
    if data is not None:
        shown["structuredContent"] = data
    meta = {key: value for key, value in (result.meta or {}).items() if key != DATA_MARK}
    shown.pop("_meta", None)
    return {**shown, "_meta": meta} if meta else shown


def show(result: CallToolResult, folder: str | None) -> None:
    """Print a result; structured content replaces text that only repeats it."""
    from dovetail.cli.terminal.contents import ContentRenderer

    renderer = ContentRenderer(folder)
    blocks = list(result.content)
    data = result.data
    if isinstance(data, (dict, list)) and _repeats(result.first_text(), data):
        output.show_value(data)
        blocks = [block for block in blocks if getattr(block, "text", None) != result.first_text()]
    for block in blocks:
        output.show_text(renderer.describe(block))


def _repeats(text: str | None, data: Any) -> bool:
    import msgspec

    if text is None:
        return True
    try:
        return msgspec.json.decode(text) == data
    except (msgspec.DecodeError, RecursionError):
        return False
