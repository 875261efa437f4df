"""`dovetail enable KEY`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from dovetail.cli.exit_status import OK
from dovetail.cli.options.config_options import Person, add_file, check_key, chosen_file, entry_of, recorded, tell, warn
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.progress import Screen


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("key", metavar="KEY", help="the server")
    parser.add_argument("--ask", action="store_true", help="ask for every input again, also where a value is known")
    add_file(parser)


def run(options: argparse.Namespace) -> int:
    """Switch it on, and ask for what it needs."""
    with Screen(sys.stderr) as screen:
        return asyncio.run(_enable(options, Person(screen)))


async def _enable(options: argparse.Namespace, person: Person) -> int:
    from dovetail.host.config.editing import edit_file, switch_on
    from dovetail.host.secrets import Secrets, variable_for

    file, key = chosen_file(options), options.key
    check_key(file, key)
    if options.ask and not person.there:
        raise UsageError("--ask needs a terminal to ask at")
    with recorded("enable", {key: {}}, file):
        edit_file(file, lambda document: switch_on(document, key))
    entry, _ = entry_of(file, key)
    secrets = Secrets(on_input=person.value if person.there else None)
    missing: list[str] = []
    for wanted in entry.inputs if entry is not None else ():
        known = None if options.ask else await secrets.known(wanted)
        if known is None and await secrets.ask(key, wanted) is None and wanted.default is None:
            missing.append(wanted.id)
            warn([f"{wanted.id} has no value yet: `dovetail enable {key} --ask`, or set {variable_for(wanted)}"])
    problem = entry.problem if entry is not None else None
    if problem is not None:
        warn([f"it cannot be started yet: {problem}"])
    facts = {"file": file, "key": key, "enabled": True, "problem": problem, "missing": missing}
    tell(options, f"Enabled {key} in {file}.", facts)
    return OK
