"""Every row of docs/limits.md agrees with the code, and every limit of the code is on the page, or internal."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (.+?) \| ([\d,.]+) \|.*\| `([\w.]+):([\w.]+)` \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "limits.md").read_text())
PACKAGES = (
    *("protocol", "transports", "runtime", "server", "client", "wire", "schema", "uri_template"),
    *("auth", "policy", "config", "host", "gateway"),
)

INTERNAL = {
    "gateway.access_control.permissions:MAX_DIGESTS": "a small cache",
    "gateway.access_control.permissions:MAX_LIMITED": "which records are not repeated",
    "gateway.accounts.account_store:MAX_CHANGES": "for gateways that were cut off from the store",
    "gateway.accounts.pages:MAX_FIELDS": "fields of our own forms",
    "gateway.home_replica:MAX_CLIENTS": "a small cache",
    "gateway.home_replica:MAX_HOMES": "a cache",
    "gateway.listings:MAX_LISTINGS": "a cache",
    "gateway.listings:MAX_LISTINGS_EACH": "a cache",
    "gateway.settings:MAX_CHOICES": "a cache",
    "gateway.core:MAX_PAGES": "a small cache",
    "gateway.core:MAX_SPECIAL_TOOLS": "names of tools that need something at each call",
    "gateway.access_control.quarantine:MAX_REVIEWS": "a small cache",
    "auth.authorization_code:MAX_FIELDS": "covered by the length of the response",
    "auth.challenge:MAX_CHALLENGES": "covered by the length of the header",
    "auth.challenge:MAX_PARAMETERS": "the same",
    "auth.dpop:MAX_NONCE": "part of the login",
    "auth.errors:MAX_TEXT": "how much of an error is shown",
    "auth.jwt:MAX_TOKEN": "the same as that of the verifiers",
    "auth.tokens:MAX_SECONDS": "a lifetime that no token reaches",
    "client.auth.browser_login:MAX_HEAD": "the page that a login returns to, on loopback",
    "client.auth.browser_login:MAX_OPEN": "the same",
    "client.auth.oauth:MAX_DEMANDS": "scopes of one server",
    "client.auth.token_store:MAX_LABEL": "the name of an account",
    "client.completion:MAX_ARGUMENTS": "a small cache",
    "client.listing:MAX_MISSING": "which warnings are not repeated",
    "client.listing:MAX_SENTENCE": "how long a warning is",
    "client.listing:MAX_WARNINGS": "how many warnings are logged",
    "client.mrtr:MAX_DELAY": "a pause, not a limit",
    "client.negotiation:MAX_ERAS": "a small cache",
    "client.output_validation:MAX_VALIDATORS": "a small cache",
    "client.url_elicitation:MAX_COMPLETED": "a small cache",
    "gateway.servers.clients:MAX_DECLARED": "a small cache",
    "gateway.servers.upstream:MAX_BEFORE": "which changes are noticed after a restart",
    "host.catalogue:MAX_COMMAND": "the name of a command, which is shortened",
    "host.models.errors:MAX_WORDS": "how much of an error is shown",
    "host.models.tool_names:MAX_NAME": "the names that providers accept",
    "policy.audit.files:MAX_OPENING": "the first line of a log, which we write",
    "policy.audit.group_commit:MAX_GROUP": "how many records are written together",
    "policy.audit.log:MAX_FIELDS": "a small cache",
    "policy.audit.log:MAX_FIELDS_TEXT": "the same",
    "policy.audit.redact_record:MAX_NAME": "part of the characters of a record",
    "policy.audit.verify:MAX_LINE": "no record is that long",
    "policy.definitions:MAX_COMPARED": "how a change is shown",
    "policy.inspection.inspector:MAX_CONCERNS": "how many concerns are shown",
    "policy.rules:MAX_SUBJECTS": "a small cache",
    "protocol.key_periods:MAX_SEALED_SECONDS": "the longest ttl of a task, for its key",
    "protocol.names:MAX_NAME": "the name of a tool with its server, which is shortened",
    "protocol.peer:MAX_NOT_WAITING": "room for pings above the limit of requests",
    "runtime.oauth_http:MAX_REDIRECTS": "part of the login",
    "schema.cost:MAX_CHAIN": "how the cost of a schema is counted",
    "schema.cost:MAX_WORK": "the same",
    "schema.pattern_limits:MAX_COMPILED_BYTES_EACH": "the share of one pattern",
    "schema.pattern_limits:MAX_TRANSLATION_WORK": "how the cost of a pattern is counted",
    "schema.validation:MAX_EXPLAINED": "how much of an error is explained",
    "server.features.list_pages:MAX_PARTS": "a small cache",
    "server.mrtr.used_states:MAX_FORGETTING": "how forgotten states are told apart",
    "server.replicas.replica:MAX_INLINE": "the longest entry of an internal log; longer messages are stored apart",
    "transports.http.client.sse_reader:MAX_EVENT_IDS": "a small cache",
    "transports.http.client.sse_reader:MAX_RETRY_SECONDS": "a pause, not a limit",
    "transports.reconnection:MAX_DELAY": "a pause, not a limit",
    "transports.reconnection:MAX_EMPTY_DELAY": "a pause, not a limit",
    "transports.http.client.sse_resume:MAX_WAIT_SECONDS": "a pause, not a limit",
    "transports.http.requester:MAX_REFUSALS": "part of the login",
    "transports.http.requester:MAX_WORDS": "how much of an error is shown",
    "transports.legacy_sse:MAX_SKIPPED": "a body that means nothing",
    "uri_template.syntax:MAX_EXPRESSIONS": "covered by the length of a template",
    "server.tasks.stored_tasks:MAX_QUEUED_TASKS": "far more than the store holds open tasks of",
    "server.tasks.stored_tasks:MAX_WORKERS": "far more than share a store",
}
"""Limits that are of no interest to users, with the reason."""


def value(module: str, name: str) -> float:
    """The value of a constant, of a field's default, or of a parameter's default."""
    found = import_module(f"dovetail.{module}")
    owner, _, attribute = name.rpartition(".")
    if not owner:
        return getattr(found, name)
    kind = getattr(found, owner)
    return inspect.signature(kind).parameters[attribute].default


@pytest.mark.parametrize(("title", "default", "module", "name"), ROWS, ids=[f"{row[2]}:{row[3]}" for row in ROWS])
def test_a_limit_of_the_page_is_that_of_the_code(title: str, default: str, module: str, name: str) -> None:
    assert value(module, name) == float(default.replace(",", "")), title


def test_every_row_of_a_table_was_read() -> None:
    lines = [line for line in (ROOT / "docs" / "limits.md").read_text().splitlines() if line.startswith("| ")]
    assert len(lines) - sum(line.startswith("| limit |") for line in lines) == len(ROWS) > 60


def constants() -> set[str]:
    """The public constants MAX_… of the packages, as `module:NAME`."""
    names: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / "src" / "dovetail" / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT / "src" / "dovetail").with_suffix("").parts)
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    found = {target.id for target in targets if isinstance(target, ast.Name)}
                    names |= {f"{module}:{name}" for name in found if name.startswith("MAX_")}
    return names


def test_every_limit_of_the_code_is_on_the_page_or_internal() -> None:
    documented = {f"{module}:{name}" for _, _, module, name in ROWS}
    assert constants() - documented - INTERNAL.keys() == set()
    assert INTERNAL.keys() <= constants(), "a limit is gone"
