"""Tools and a prompt that return `InputRequired` themselves and run again with the responses."""

from typing import Any

from dovetail import Context, InputRequired, Server

input_required_tools = Server("input-required-tools")


def form(field: str, kind: str = "string") -> dict[str, Any]:
    """The schema of a form with one field."""
    return {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}


@input_required_tools.tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequired:
    """Ask for a name, keeping nothing between the rounds."""
    answer = ctx.answers.get("user_name")
    if answer is None:
        return InputRequired({"user_name": ctx.ask.elicit("What is your name?", form("name"))})
    return f"Hello, {answer.content['name']}!"


@input_required_tools.tool
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequired:
    """Ask the client's model, keeping nothing between the rounds."""
    if "capital_question" not in ctx.answers:
        question = ctx.ask.sample("What is the capital of France?", max_tokens=100)
        return InputRequired({"capital_question": question})
    return ctx.answers["capital_question"].text


@input_required_tools.tool
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequired:
    """Ask for the roots, keeping nothing between the rounds."""
    if "client_roots" not in ctx.answers:
        return InputRequired({"client_roots": ctx.ask.roots()})
    return " ".join(root.uri for root in ctx.answers["client_roots"].roots)


@input_required_tools.tool
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequired:
    """Ask for consent and keep a state meanwhile."""
    if "confirm" not in ctx.answers:
        return InputRequired({"confirm": ctx.ask.elicit("Please confirm", form("ok", "boolean"))}, state="asked")
    return "state-ok" if ctx.state == "asked" else "the state is not the one that was given"


@input_required_tools.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequired:
    """Ask for consent and keep a state that nobody can change."""
    return await test_input_required_result_request_state(ctx)


@input_required_tools.tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequired:
    """Ask for whatever the client can answer, and for nothing else."""
    if ctx.answers:
        return "Got " + ", ".join(ctx.answers)
    questions: dict[str, Any] = {}
    if ctx.client_capabilities.sampling is not None:
        questions["model"] = ctx.ask.sample("Generate a greeting", max_tokens=50)
    if ctx.client_capabilities.elicitation is not None:
        questions["user"] = ctx.ask.elicit("What is your name?", form("name"))
    return InputRequired(questions)


@input_required_tools.prompt
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequired:
    """Ask for the context before giving a prompt."""
    if "user_context" not in ctx.answers:
        question = ctx.ask.elicit("What context should the prompt use?", form("context"))
        return InputRequired({"user_context": question})
    return f"Use this context: {ctx.answers['user_context'].content['context']}"
