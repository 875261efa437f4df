"""An observer of one connection that holds every message, both ways, against its revision's official schema.

Give it to `Client(trace=oracle)`, or call it with every line of any other transport. It never raises while
it listens: `verdict()` does, naming all that was wrong since the last verdict. Besides the schemas it knows
the laws that no schema can say: answers pair with requests, ids are used once, progress grows and belongs to
a request in flight, only the sender of a request cancels it.

Without the folder that DOVETAIL_SPEC names it checks only these laws, and `checks_schemas` is false.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dovetail.protocol.envelope import SUBSCRIPTION_ID, VERSION
from dovetail.protocol.revisions import NEWEST_HANDSHAKE, REVISIONS
from tests.support import tasks_schema
from tests.support.closed_schema import ClosedSchema, closed_schema, spec_folder

Side = Literal["client", "server"]
OTHER: dict[Side, Side] = {"client": "server", "server": "client"}
UNIONS = {
    ("client", True): "ClientRequest",
    ("server", True): "ServerRequest",
    ("client", False): "ClientNotification",
    ("server", False): "ServerNotification",
}


class Message(NamedTuple):
    """One message as it was seen."""

    sender: Side
    body: dict[str, Any]
    batched: bool = False

    @property
    def method(self) -> str | None:
        return self.body.get("method")

    @property
    def params(self) -> dict[str, Any]:
        return _params(self.body)


class SentRequest:
    """A request, and what became of it so far."""

    def __init__(self, sender: Side, body: dict[str, Any], revision: str) -> None:
        self.sender = sender
        self.method: str = body["method"]
        self.params = _params(body)
        self.revision = revision
        self.answered = False
        self.progress = float("-inf")


class Oracle:
    """Notes the messages of one connection and judges them."""

    def __init__(
        self,
        *,
        seen_from: Side = "client",
        judge: Collection[Side] = ("client", "server"),
        extension_methods: Collection[str] = (),
        result_types: Collection[str] = (),
        spec: Path | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self._here: Side = seen_from
        self._judged = frozenset(judge)
        self._extension_methods = frozenset(extension_methods)
        self._result_types = frozenset(result_types)
        self._spec = spec or spec_folder()
        self._problems: list[str] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._asked: dict[tuple[Side, str, Any], SentRequest] = {}
        self._agreed: str | None = None
        self._latest = next(iter(REVISIONS))

    @property
    def checks_schemas(self) -> bool:
        """Whether there are official schemas to check against."""
        return self._spec is not None

    def __call__(self, direction: str, line: bytes) -> None:
        sender: Side = self._here if direction == "sent" else OTHER[self._here]
        try:
            message = json.loads(line)
        except ValueError as problem:
            self._complain(sender, line, [f"not JSON: {problem}"])
            return
        if isinstance(message, list):
            self._take_batch(sender, message)
        else:
            self._take(sender, message)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for the message that makes a condition true."""
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def verdict(self) -> None:
        """Fail if anything was wrong since the last verdict."""
        problems, self._problems = self._problems, []
        assert not problems, "\n".join(problems)

    def problems(self) -> list[str]:
        """What was wrong since the last verdict, for those who want it wrong."""
        problems, self._problems = self._problems, []
        return problems

    def forgive(self, wrong: str) -> None:
        """Forget the problems that a test made on purpose, and only those."""
        self._problems = [problem for problem in self._problems if wrong not in problem]

    def sent_by(self, sender: Side, method: str | None = None, since: int = 0) -> list[Message]:
        """The messages of one side, of one method if it is named."""
        return [
            message
            for message in self.messages[since:]
            if message.sender == sender and (method is None or message.method == method)
        ]

    def answer(self, request: Message) -> dict[str, Any]:
        """The answer to a request."""
        answers = [
            message.body
            for message in self.messages[self.messages.index(request) :]
            if message.sender != request.sender
            and message.method is None
            and _key(message.body.get("id")) == _key(request.body["id"])
        ]
        assert len(answers) == 1, f"{request.body} has {len(answers)} answers"
        return answers[0]

    def result(self, method: str, since: int = 0) -> dict[str, Any]:
        """The bare result of the last request of a method."""
        return self.answer(self.sent_by("client", method, since)[-1])["result"]

    def _take_batch(self, sender: Side, members: list[Any]) -> None:
        revision = self._agreed or self._latest
        if not REVISIONS[revision].batching:
            self._complain(sender, members, [f"{revision} has no batches"])
        if not members:
            self._complain(sender, members, ["an empty batch"])
        calls = ["method" in member for member in members if isinstance(member, dict)]
        if any(calls) and not all(calls):
            self._complain(sender, members, ["a batch mixes calls and answers"])
        for member in members:
            self._take(sender, member, batched=True)

    def _take(self, sender: Side, body: Any, *, batched: bool = False) -> None:
        if not isinstance(body, dict):
            self._complain(sender, body, ["a message is an object"])
            return
        self.messages.append(Message(sender, body, batched))
        if "method" not in body:
            self._complain(sender, body, self._judge_answer(sender, body))
        elif "id" in body:
            self._complain(sender, body, self._judge_request(sender, body, batched=batched))
        else:
            self._complain(sender, body, self._judge_notification(sender, body))

    def _complain(self, sender: Side, message: Any, judgement: Iterable[str]) -> None:
        problems = list(judgement)  # also of the side that is not judged: judging is how messages are paired
        if sender in self._judged:
            shown = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._problems += [
                f"{sender}: {problem}\n    in {shown[:600].decode(errors='replace')}" for problem in problems
            ]

    def _judge_request(self, sender: Side, body: dict[str, Any], *, batched: bool) -> Iterator[str]:
        method, params = body["method"], _params(body)
        revision = self._revision_of_request(sender, method, params)
        key = (sender, *_key(body["id"]))
        if key in self._asked:
            yield f"the id {body['id']!r} was used before"
        if method == "initialize" and batched:
            yield "initialize must not be part of a batch"
        if REVISIONS[revision].era == "handshake" and self._agreed is None and method not in ("initialize", "ping"):
            yield f"{method} before the handshake was answered"
        self._asked[key] = SentRequest(sender, body, revision)
        yield from self._judge_call(sender, body, revision, "JSONRPCRequest", is_request=True)

    def _judge_notification(self, sender: Side, body: dict[str, Any]) -> Iterator[str]:
        method, params = body["method"], _params(body)
        asked: SentRequest | None = None
        if method == "notifications/progress":
            asked = self._asked_with_token(OTHER[sender], params.get("progressToken"))
            yield from _judge_progress(asked, params)
        elif method == "notifications/cancelled":
            asked = self._cancelled(sender, params.get("requestId"))
            yield from self._judge_cancel(sender, asked)
        elif (id := (params.get("_meta") or {}).get(SUBSCRIPTION_ID)) is not None:
            asked = self._asked.get((OTHER[sender], *_key(id)))
            if asked is None or asked.method != "subscriptions/listen":
                yield f"no subscription has the id {id!r}"
        revision = asked.revision if asked is not None else self._agreed or self._latest
        yield from self._judge_call(sender, body, revision, "JSONRPCNotification", is_request=False)

    def _judge_call(
        self, sender: Side, body: dict[str, Any], revision: str, shape: str, *, is_request: bool
    ) -> Iterator[str]:
        schema = self._schema(revision)
        if schema is None:
            return
        yield from schema.problems(shape, body)
        yield from _unknown_members(body, "jsonrpc id method params" if is_request else "jsonrpc method params")
        method = body["method"]
        definition = schema.members(UNIONS[sender, is_request]).get(method)
        if REVISIONS[revision].tasks == "extension" and method in tasks_schema.METHODS[sender]:
            yield from self._judge_task_call(schema, body, is_request=is_request)
            return
        if definition is None:
            if method not in self._extension_methods or (
                is_request and sender == "server" and "ServerRequest" not in schema.definitions
            ):
                yield f"on {revision} the {sender} must not send {method}"
            elif REVISIONS[revision].era == "envelope" and is_request:
                yield from schema.problems("RequestParams", body.get("params"))
            return
        whole = schema.describes(definition, "jsonrpc")
        part = body if whole else {name: body[name] for name in ("method", "params") if name in body}
        yield from schema.strict_problems(definition, part)

    def _judge_task_call(self, schema: ClosedSchema, body: dict[str, Any], *, is_request: bool) -> Iterator[str]:
        """Judge a call of the tasks extension, of which the official schema of the revision knows nothing."""
        yield from schema.problems("RequestParams" if is_request else "NotificationParams", body.get("params"))
        yield from tasks_schema.problems(body["method"], body.get("params"))

    def _judge_answer(self, sender: Side, body: dict[str, Any]) -> Iterator[str]:
        asked = self._asked.get((OTHER[sender], *_key(body.get("id"))))
        if asked is None and body.get("id") is not None:
            yield f"nobody asked with the id {body.get('id')!r}"
        revision = asked.revision if asked is not None else self._agreed or self._latest
        if asked is not None:
            if asked.answered:
                yield "the request was answered before"
            asked.answered = True
            if asked.method == "initialize" and "result" in body:
                revision = self._agree(body["result"])
        if REVISIONS[revision].era == "envelope" and sender == "client":
            yield f"on {revision} the client must not answer"
        schema = self._schema(revision)
        if schema is not None:
            judge = self._judge_error if "error" in body else self._judge_result
            yield from judge(schema, revision, asked, body)

    def _judge_error(
        self, schema: ClosedSchema, revision: str, asked: SentRequest | None, body: dict[str, Any]
    ) -> Iterator[str]:
        shape = "JSONRPCError" if "JSONRPCError" in schema.definitions else "JSONRPCErrorResponse"
        if asked is None:
            # JSON-RPC wants null where no id could be read: the older schemas forgot it, the newer drop it.
            if schema.requires(shape, "id"):
                if "id" not in body or body["id"] is not None:
                    yield f"on {revision} an error without a readable id carries id null"
                body = {**body, "id": 0}
            elif "id" in body:
                yield f"on {revision} an error without a readable id carries no id"
        yield from schema.strict_problems(shape, body)
        code = body["error"].get("code")
        if (definition := schema.error_of(code)) is not None:
            yield from schema.strict_problems(definition, body)
        elif REVISIONS[revision].era == "envelope" and (code in (-32002, -32042) or -32099 <= code <= -32020):
            yield f"on {revision} there is no error code {code}"

    def _judge_result(
        self, schema: ClosedSchema, revision: str, asked: SentRequest | None, body: dict[str, Any]
    ) -> Iterator[str]:
        response = "JSONRPCResultResponse" if "JSONRPCResultResponse" in schema.definitions else "JSONRPCResponse"
        yield from schema.problems(response, body)
        yield from _unknown_members(body, "jsonrpc id result")
        if asked is None:
            return
        definition = schema.members(UNIONS[asked.sender, True]).get(asked.method)
        outcome = body["result"].get("resultType", "complete") if REVISIONS[revision].result_type else "complete"
        if outcome == "input_required":
            yield from schema.strict_problems("InputRequiredResult", body["result"])
        elif outcome == "task" and asked.method == "tools/call":
            yield from tasks_schema.problems("CreateTaskResult", body["result"])
        elif outcome != "complete":
            if outcome not in self._result_types:
                yield f"nobody announced the result type {outcome!r}"
        elif REVISIONS[revision].tasks == "extension" and asked.method in tasks_schema.RESULTS:
            yield from tasks_schema.problems(tasks_schema.RESULTS[asked.method], body["result"])
        elif definition is not None:
            yield from schema.strict_problems(_result_name(schema, definition, asked, body["result"]), body["result"])

    def _revision_of_request(self, sender: Side, method: str, params: dict[str, Any]) -> str:
        """The revision a request is made under: the one it names, or the one of the handshake."""
        if sender == "server":
            return self._agreed or self._latest
        named = (params.get("_meta") or {}).get(VERSION)
        if method == "initialize":
            named = params.get("protocolVersion")
            return named if named in REVISIONS and REVISIONS[named].era == "handshake" else NEWEST_HANDSHAKE.name
        if named is not None:
            self._latest = named if named in REVISIONS else next(reversed(REVISIONS))
            return self._latest
        return self._agreed or NEWEST_HANDSHAKE.name

    def _agree(self, result: dict[str, Any]) -> str:
        named = result.get("protocolVersion")
        revision = self._agreed = named if isinstance(named, str) and named in REVISIONS else NEWEST_HANDSHAKE.name
        return revision

    def _asked_with_token(self, sender: Side, token: Any) -> SentRequest | None:
        found = [
            asked
            for asked in self._asked.values()
            if asked.sender == sender and _key((asked.params.get("_meta") or {}).get("progressToken")) == _key(token)
        ]
        return found[-1] if found and token is not None else None

    def _cancelled(self, sender: Side, id: Any) -> SentRequest | None:
        own = self._asked.get((sender, *_key(id)))
        if own is None and sender == "server":
            # Since 2026-07-28 a server ends a subscription of the client's with the same message.
            theirs = self._asked.get(("client", *_key(id)))
            return theirs if theirs is not None and theirs.method == "subscriptions/listen" else None
        return own

    def _judge_cancel(self, sender: Side, asked: SentRequest | None) -> Iterator[str]:
        if asked is None:
            yield f"the {sender} cancelled what it had not asked for"
        elif asked.method == "initialize":
            yield "initialize must not be cancelled"
        elif asked.answered and sender == self._here:
            yield "a request was cancelled after its answer had come"

    def _schema(self, revision: str) -> ClosedSchema | None:
        return None if self._spec is None else closed_schema(self._spec, revision)


def _result_name(schema: ClosedSchema, request: str, asked: SentRequest, result: dict[str, Any]) -> str:
    """The definition that a result has to keep to; on 2025-11-25 a request may ask for a task, and get one or not."""
    if "task" in asked.params and "task" in result:
        return "CreateTaskResult"
    if asked.method == "tasks/result":
        # The result of the original request: from a server that of a call, from a client that of one of two questions.
        if asked.sender == "client":
            return "CallToolResult"
        return "ElicitResult" if "action" in result else "CreateMessageResult"
    return schema.result_of(request)


def _judge_progress(asked: SentRequest | None, params: dict[str, Any]) -> Iterator[str]:
    if asked is None:
        yield f"no request has the progress token {params.get('progressToken')!r}"
        return
    if asked.answered and "task" not in asked.params:  # a token of a task is valid for all of its life
        yield "progress of a request that was answered"
    if not params.get("progress", 0) > asked.progress:
        yield f"progress did not grow: {params.get('progress')} after {asked.progress}"
    asked.progress = params.get("progress", 0)


def _params(body: dict[str, Any]) -> dict[str, Any]:
    params = body.get("params")
    return params if isinstance(params, dict) else {}


def _unknown_members(body: dict[str, Any], known: str) -> list[str]:
    unknown = body.keys() - set(known.split())
    return [f"JSON-RPC knows no {sorted(unknown)} here"] if unknown else []


def _key(id: Any) -> tuple[str, Any]:
    """Ids are type-exact: 5 and "5" are two, and so are 1 and true."""
    return type(id).__name__, id if isinstance(id, str | int | float) else repr(id)
