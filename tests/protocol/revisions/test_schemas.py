"""Every revision against its official schema: who may send what, which fields there are, and what we send."""

from typing import Any, get_args

import jsonschema_rs
import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields

from dovetail.protocol.revisions import REVISIONS, Method, Revision
from dovetail.types import client_features, content, messages, prompts, tasks, tools
from dovetail.types.serialization import Value
from tests.protocol.revisions.official import Official, official
from tests.types.samples import full, kinds

UNIONS = {
    ("client", True): "ClientRequest",
    ("server", True): "ServerRequest",
    ("client", False): "ClientNotification",
    ("server", False): "ServerNotification",
}

PLACES = {
    "Annotations": ("Annotations", "Annotated.annotations"),
    "Audio": ("AudioContent",),
    "BlobContents": ("BlobResourceContents",),
    "Completion": ("CompleteResult.completion",),
    "CompletionArgument": ("CompleteRequestParams.argument", "CompleteRequest.params.argument"),
    "CompletionContext": ("CompleteRequestParams.context", "CompleteRequest.params.context"),
    "CreateTaskResult": ("CreateTaskResult",),
    "ElicitationCapability": ("ClientCapabilities.elicitation",),
    "Embedded": ("EmbeddedResource",),
    "Image": ("ImageContent",),
    "InputRequired": ("InputRequiredResult",),
    "ListCapability": ("ServerCapabilities.tools",),
    "ResourceReference": ("ResourceTemplateReference", "ResourceReference"),
    "ResourcesCapability": ("ServerCapabilities.resources",),
    "RootsCapability": ("ClientCapabilities.roots",),
    "RootsRequest": ("ListRootsRequest",),
    "SamplingCapability": ("ClientCapabilities.sampling",),
    "SamplingRequest": ("CreateMessageRequest",),
    "Text": ("TextContent",),
    "TextContents": ("TextResourceContents",),
    "ToolUse": ("ToolUseContent",),
}
"""Where a type stands in the schema when that is not a definition of the same name."""

BEYOND = {"ClientCapabilities": {"extensions"}, "ServerCapabilities": {"extensions"}}
"""Fields that Dovetail knows on every revision."""

ENDINGS = ("Request", "Notification", "Params", "Error", "Schema", "MetaObject", "ResultResponse")
LEFT_OUT = {
    *("BaseMetadata", "Icons", "PaginatedResult", "ResourceContents", "Annotated"),
    *("ClientResult", "ServerResult", "ContentBlock", "SamplingMessageContentBlock"),
    *("InputRequest", "InputResponse", "PrimitiveSchemaDefinition"),
    "RelatedTaskMetadata",
}
"""Bases and unions, whose properties are those of the types; and what stands in `_meta` only."""

IN_ROUNDS = {"ElicitRequest", "RootsRequest", "SamplingRequest"}
BASES = {"CacheableResult", "PageResult", "RetriedParams"}
BLOCKS = {"text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result"}

each_revision = pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)


def definitions(revision: Revision, schema: Official) -> dict[str, tuple[Method, str]]:
    """Of every method, its entry and the definition of its request or notification."""
    found: dict[str, tuple[Method, str]] = {}
    for union in UNIONS.values():
        for name, definition in schema.members(union).items():
            found[name] = (revision.methods[name], definition)
    for name, definition in schema.members("InputRequest").items():
        found[name] = (revision.inputs[name], definition)
    return found


def result_definition(schema: Official, request: str) -> str:
    name = request.removesuffix("Request") + "Result"
    return name if name in schema.definitions else "EmptyResult"


def expected_fields(revision: Revision, schema: Official) -> dict[str, frozenset[str]]:
    expected: dict[str, frozenset[str]] = {}
    for entry, definition in definitions(revision, schema).values():
        params = schema.properties(schema.at(definition)["properties"].get("params", {}))
        if revision.era == "handshake":
            # Every request and notification may carry `_meta`, also where its definition leaves it out.
            params |= {"_meta"}
        kind = entry.params.__name__
        assert expected.setdefault(kind, params) == params, f"{kind} stands for params that differ"
        if entry.result is not None:
            kind, names = (
                entry.result.__name__,
                schema.properties(schema.at(result_definition(schema, definition))),
            )
            assert expected.setdefault(kind, names) == names, f"{kind} stands for results that differ"
    for name in (kind.__name__ for kind in kinds()):
        if name in BASES or (name in IN_ROUNDS and not revision.inputs):
            continue
        for place in PLACES.get(name, (name,)):
            if name not in expected and schema.has(place):
                expected[name] = schema.properties(schema.at(place)) | BEYOND.get(name, set())
    return expected


@each_revision
@pytest.mark.parametrize(("sender", "is_request"), UNIONS)
def test_methods_are_those_of_the_schema(revision: Revision, sender: str, is_request: bool) -> None:
    schema = official(revision.name)
    ours = {
        name
        for name, method in revision.methods.items()
        if method.sender in (sender, "both") and (method.result is not None) == is_request
    }
    assert ours == set(schema.members(UNIONS[sender, is_request]))


@each_revision
def test_input_requests_are_those_of_the_schema(revision: Revision) -> None:
    assert set(revision.inputs) == set(official(revision.name).members("InputRequest"))


@each_revision
def test_known_fields_are_those_of_the_schema(revision: Revision) -> None:
    expected = expected_fields(revision, official(revision.name))
    assert [
        f"{name}: schema {sorted(expected.get(name, ()))}, ours {sorted(revision.known.get(name, ()))}"
        for name in sorted(expected.keys() | revision.known.keys())
        if expected.get(name) != revision.known.get(name)
    ] == []


@each_revision
def test_every_definition_of_a_value_has_a_type(revision: Revision) -> None:
    """What no type stands for is an envelope, a union, a base, an error, or a schema of a form's field."""
    schema = official(revision.name)
    placed = {place.split(".")[0] for places in PLACES.values() for place in places}
    placed |= {kind.__name__ for kind in kinds()}
    for _, definition in definitions(revision, schema).values():
        placed |= {definition, definition + "Params", result_definition(schema, definition)}
    left = {name for name in schema.definitions if name not in placed and schema.properties(schema.at(name))}
    assert {name for name in left if not name.startswith("JSONRPC") and not name.endswith(ENDINGS)} <= LEFT_OUT


@each_revision
def test_every_type_that_can_be_sent_is_known(revision: Revision) -> None:
    assert reachable(revision) - revision.known.keys() == set()


def reachable(revision: Revision) -> set[str]:
    """The types that known fields lead to, from every params and result."""
    entries = [*revision.methods.values(), *revision.inputs.values()]
    waiting: list[type[Value] | None] = [kind for entry in entries for kind in (entry.params, entry.result)]
    waiting += revision.outcomes.values()
    seen: set[str] = set()
    while waiting:
        kind = waiting.pop()
        if kind is None or kind.__name__ in seen:
            continue
        if kind.__struct_config__.tag in BLOCKS - revision.content_types:
            continue
        seen.add(kind.__name__)
        known = revision.known.get(kind.__name__, frozenset())
        for field in fields(kind):
            if field.encode_name in known:
                waiting += types_in(field.type)
    return seen


def types_in(hint: Any) -> list[type[Value]]:
    if hint is content.Contents:
        return [content.TextContents, content.BlobContents]
    if isinstance(hint, type) and issubclass(hint, Value):
        return [hint]
    return [kind for part in get_args(hint) for kind in types_in(part)]


def test_every_field_is_known_to_some_revision() -> None:
    unknown: list[str] = []
    for kind in kinds():
        names = frozenset[str]().union(*(revision.known.get(kind.__name__, ()) for revision in REVISIONS.values()))
        if names:
            unknown += [
                f"{kind.__name__}.{field.name}"
                for field in fields(kind)
                if field.encode_name not in names and field.encode_name[0] != "\x7f" and field.name != "meta"
            ]
    assert unknown == []


def check_request(revision: Revision, schema: Official, method: str, params: dict[str, Any]) -> None:
    _, definition = definitions(revision, schema)[method]
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert schema.problems(definition, message) == [], f"{method} on {revision.name}: {params}"


@each_revision
def test_full_params_are_valid(revision: Revision) -> None:
    schema = official(revision.name)
    for method, (entry, _) in definitions(revision, schema).items():
        check_request(revision, schema, method, revision.emit(full(entry.params)))


@each_revision
def test_bare_params_are_valid(revision: Revision) -> None:
    schema = official(revision.name)
    for method, (entry, _) in definitions(revision, schema).items():
        check_request(revision, schema, method, revision.emit(bare(entry.params)))


@each_revision
def test_full_and_bare_results_are_valid(revision: Revision) -> None:
    schema = official(revision.name)
    for method, (entry, definition) in definitions(revision, schema).items():
        if entry.result is not None:
            for value in (full(entry.result), bare(entry.result)):
                if hasattr(value, "result_type"):
                    value.result_type = None
                plain = revision.emit_result(method, value)
                problems = schema.problems(result_definition(schema, definition), plain)
                assert problems == [], f"{method} on {revision.name}: {plain}"


def bare(kind: type[Value]) -> Any:
    """A value with only what it must have; on the envelope era that is `_meta` too."""
    value = full(kind)
    for field in fields(kind):
        if not field.required and field.name != "meta" and field.encode_name[0] != "\x7f":
            setattr(
                value,
                field.name,
                field.default if field.default is not NODEFAULT else field.default_factory(),
            )
    if isinstance(value, client_features.ElicitParams):
        value.requested_schema = {"type": "object", "properties": {}}
    if isinstance(value, messages.CancelledParams):
        value.request_id = 1
    return value


@each_revision
def test_interim_results_are_valid(revision: Revision) -> None:
    schema = official(revision.name)
    for definition in ("InputRequiredResult", "CreateTaskResult"):
        kind = {"InputRequiredResult": client_features.InputRequired, "CreateTaskResult": tasks.CreateTaskResult}[
            definition
        ]
        if definition in schema.definitions:
            assert schema.problems(definition, revision.emit_result("tools/call", full(kind))) == []


@each_revision
@pytest.mark.parametrize("block", get_args(content.Content), ids=lambda kind: kind.__name__)
def test_every_block_is_valid_wherever_content_stands(revision: Revision, block: type[Value]) -> None:
    schema = official(revision.name)
    value = full(block)
    called = revision.emit_result("tools/call", tools.CallToolResult([value]))
    assert schema.problems("CallToolResult", called) == []
    prompted = revision.emit_result("prompts/get", prompts.GetPromptResult([prompts.PromptMessage("user", value)]))
    assert schema.problems("GetPromptResult", prompted) == []


@each_revision
@pytest.mark.parametrize("block", get_args(content.SamplingContent), ids=lambda kind: kind.__name__)
def test_every_block_is_valid_in_sampling(revision: Revision, block: type[Value]) -> None:
    schema = official(revision.name)
    for blocks in (full(block), [full(block)], [full(block), content.Text("more")]):
        message = client_features.SamplingMessage("user", blocks)
        asked = revision.emit(client_features.CreateMessageParams([message], 5))
        check_request(revision, schema, "sampling/createMessage", asked)
        answered = revision.emit_result(
            "sampling/createMessage", client_features.CreateMessageResult("assistant", blocks, "m")
        )
        assert schema.problems("CreateMessageResult", answered) == []


@each_revision
def test_both_forms_of_elicitation_are_valid(revision: Revision) -> None:
    schema = official(revision.name)
    form = client_features.ElicitParams("?", {"type": "object", "properties": {"a": {"type": "string"}}})
    page = client_features.ElicitParams("?", mode="url", url="https://example.com", elicitation_id="1")
    if "ElicitRequest" in schema.definitions:
        check_request(revision, schema, "elicitation/create", revision.emit(form))
    if "url" in revision.known.get("ElicitParams", ()):
        check_request(revision, schema, "elicitation/create", revision.emit(page))


@each_revision
@pytest.mark.parametrize("value", [{"a": 1}, [1], "text", 5, True, None], ids=repr)
def test_structured_content_and_its_schema_are_valid(revision: Revision, value: Any) -> None:
    schema = official(revision.name)
    output: dict[str, Any] = {"type": "object"} if isinstance(value, dict) else {"description": "anything"}
    listed = revision.emit_result(
        "tools/list", tools.ListToolsResult([tools.Tool("t", {"type": "object"}, output_schema=output)])
    )
    assert schema.problems("ListToolsResult", listed) == []
    result = tools.CallToolResult([content.Text("x")], value, wrapped=not isinstance(value, dict))
    called = revision.emit_result("tools/call", result)
    assert schema.problems("CallToolResult", called) == []
    if revision.structured != "absent":
        [tool] = listed["tools"]
        assert jsonschema_rs.is_valid(tool["outputSchema"], called["structuredContent"])


def test_the_oracle_can_fail() -> None:
    for revision in REVISIONS.values():
        schema = official(revision.name)
        assert schema.problems("CallToolResult", {"content": [{"type": "smell"}]}) != []
        assert schema.problems("CallToolRequest", {"method": "tools/call", "params": {}}) != []
