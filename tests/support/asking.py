"""Hand-driven input_required rounds: the raw result of each request, and the retry with responses."""

from typing import Any

from dovetail import Client, Gateway, Server
from dovetail.protocol.errors import RemoteError

ENVELOPE = "2026-07-28"
KEYS = [b"a key for the tests of rounds"]


def nobody(_: Any) -> Any:
    raise AssertionError("the client was asked, and the test answers by itself")


def asked(server: Server | Gateway | str | list[str], revision: str = ENVELOPE, **options: Any) -> Client:
    """A client that says it can answer everything; the test does the answering."""
    given: dict[str, Any] = {"on_elicit": nobody, "on_sample": nobody, "roots": [], "sample_tools": True}
    return Client(server, revision=revision, **{**given, **options})


class Rounds:
    """One request, asked again and again."""

    def __init__(self, client: Client, method: str, params: dict[str, Any]) -> None:
        self.client = client
        self.method = method
        self.params = params
        self.result: dict[str, Any] = {}

    @classmethod
    async def call(cls, client: Client, tool: str, **arguments: Any) -> "Rounds":
        """Call a tool."""
        rounds = cls(client, "tools/call", {"name": tool, "arguments": arguments})
        await rounds.send()
        return rounds

    async def send(self, client: Client | None = None, **more: Any) -> dict[str, Any]:
        """Send the request, as a retry if there is something more in it."""
        self.result = await (client or self.client).request(self.method, {**self.params, **more})
        return self.result

    @property
    def state(self) -> str:
        assert self.result["resultType"] == "input_required", self.result
        return self.result["requestState"]

    @property
    def questions(self) -> dict[str, dict[str, Any]]:
        """The open questions by key."""
        assert self.result["resultType"] == "input_required", self.result
        return self.result.get("inputRequests", {})

    @property
    def messages(self) -> list[str]:
        """What the open questions to the person say."""
        return sorted(question["params"]["message"] for question in self.questions.values())

    @property
    def text(self) -> str:
        assert self.result["resultType"] == "complete", self.result
        return "\n".join(block["text"] for block in self.result["content"])

    def accepted(self, value: Any = None) -> dict[str, Any]:
        """Answers that accept every open form with a value for its lone field."""
        return {key: accept(value) for key in self.questions}

    async def answer(self, value: Any = None, client: Client | None = None) -> dict[str, Any]:
        """Accept every open question and go on, with this client or another."""
        return await self.send(client, requestState=self.state, inputResponses=self.accepted(value))

    async def refused(self, client: Client | None = None, **more: Any) -> RemoteError:
        """The error that a retry gets."""
        try:
            result = await (client or self.client).request(self.method, {**self.params, **more})
        except RemoteError as problem:
            return problem
        raise AssertionError(f"not refused: {result}")


def accept(value: Any = None) -> dict[str, Any]:
    """An accepted form with a lone field."""
    return {"action": "accept", "content": {} if value is None else {"value": value}}
