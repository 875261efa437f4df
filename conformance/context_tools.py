"""Tools that elicit, sample and list roots with `ctx`, the same on every revision."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from dovetail import Context, Param, Server

context_tools = Server("context-tools")


@dataclass
class Account:
    """A form for a new account."""

    username: Annotated[str, Param("User's response")]
    email: Annotated[str, Param("User's email address")]


@dataclass
class Person:
    """A form with a default for each kind of field."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}


@context_tools.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    reply = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {reply.text}"


@context_tools.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for a name and an address."""
    answer = await ctx.elicit(message, Account)
    return f"User response: action={answer.action}, content={answer.data}"


@context_tools.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user with a default for each kind of field."""
    answer = await ctx.elicit("Please review the defaults", Person)
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


@context_tools.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user with each kind of choice."""
    answer = await ctx.elicit("Please choose", ENUMS)
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


@context_tools.tool
async def test_missing_capability(ctx: Context) -> str:
    """Ask the client's model, which the client has to have declared."""
    return (await ctx.sample("Anything", max_tokens=10)).text


@context_tools.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress and ask the user."""
    await ctx.progress(1, 2)
    return (await ctx.elicit("Go on?", bool)).action


@context_tools.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and for the roots, all in one round."""
    name, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", NAME, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{greeting.text}, {name.data['name']}, at {len(roots)} roots"


@context_tools.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask one thing after the other."""
    name = await ctx.elicit("Step 1: What is your name?", NAME, key="step1")
    color = await ctx.elicit("Step 2: What is your favorite color?", COLOR, key="step2")
    return f"{name.data['name']} likes {color.data['color']}"
