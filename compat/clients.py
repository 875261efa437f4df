"""The clients that meet our server."""

from typing import Any

from .entries import Expected, ThirdPartyClient

STDIO_HTTP = ("stdio", "http")
ALL_BUT_SSE = ("to-http", "to-http-stateful", "to-ws", "to-stdio")


def mcp(version: str, *more: str, **options: Any) -> ThirdPartyClient:
    """The official Python SDK."""
    driver = "sdk/mcp1.py" if version.startswith("1.") else "sdk/mcp2.py"
    return ThirdPartyClient(name="mcp", version=version, packages=(f"mcp=={version}", *more), driver=driver, **options)


def fastmcp(version: str, *more: str, **options: Any) -> ThirdPartyClient:
    """FastMCP."""
    packages = (f"fastmcp=={version}", *more)
    return ThirdPartyClient(
        name="fastmcp", version=version, packages=packages, driver="sdk/fastmcp_client.py", **options
    )


def python(name: str, version: str, driver: str, *more: str, extra: str = "", **options: Any) -> ThirdPartyClient:
    """A package of PyPI."""
    packages = (f"{name}{extra}=={version}", *more)
    return ThirdPartyClient(name=name, version=version, packages=packages, driver=driver, **options)


def npm(name: str, version: str, driver: str, *more: str, **options: Any) -> ThirdPartyClient:
    """A package of npm."""
    packages = (f"{name}@{version}", *more)
    return ThirdPartyClient(name=name, version=version, packages=packages, driver=driver, registry="npm", **options)


CLIENTS = (
    mcp("1.2.0", "pydantic<2.12", transports=("stdio", "sse")),
    mcp("1.6.0", "pydantic<2.12", transports=("stdio", "sse")),
    mcp("1.9.4", "pydantic<2.12"),
    mcp("1.13.1", "pydantic<2.12"),
    mcp("1.16.0", "pydantic<2.12"),
    mcp("1.30.0"),
    mcp("2.0.0", modes=("auto", "legacy")),
    mcp("2.1.1", modes=("auto", "legacy")),
    mcp("2.2.0", modes=("auto", "legacy")),
    mcp("2.3.0", modes=("auto", "legacy")),
    fastmcp("2.3.5", "mcp<1.10", "pydantic<2.12"),
    fastmcp("2.14.7"),
    fastmcp("3.4.10"),
    fastmcp(
        "4.1.2",
        expected=(
            Expected("ping", "it sends `ping`, which 2026-07-28 does not have", STDIO_HTTP),
            Expected("log messages arrive", "it has no log level on 2026-07-28", STDIO_HTTP),
        ),
    ),
    python(
        "langchain-mcp-adapters",
        "0.3.2",
        "agents/langchain_tools.py",
        expected=(
            Expected("call: a sound", "it does not convert audio"),
            Expected("a prompt with a resource", "it has no resources in prompts"),
        ),
    ),
    python(
        "pydantic-ai-slim",
        "2.66.0",
        "agents/pydantic_ai_toolset.py",
        extra="[mcp]",
        expected=(
            Expected("a tool added at run time", "it keeps its list of tools on 2026-07-28", revisions=("2026-07-28",)),
        ),
    ),
    python("openai-agents", "0.24.0", "agents/openai_agents_sdk.py"),
    python("mcp-use", "1.7.1", "agents/mcp_use_session.py"),
    python(
        "llama-index-tools-mcp",
        "0.6.0",
        "agents/llama_index_tools.py",
        expected=(
            Expected("a prompt with a resource", "it has no resources in prompts"),
            Expected("a recursive schema for a model", "it recurses without end on recursive types"),
        ),
    ),
    python(
        "smolagents",
        "1.26.0",
        "agents/smolagents_tools.py",
        "mcp<2",
        "websockets",
        extra="[mcp]",
        python="3.12",
        expected=(
            Expected("call: no result", "it fails on a result without content"),
            Expected("call: a sound", "it needs torchaudio for audio"),
            Expected("call: a link", "it has no resource links"),
            Expected("call: an embedded resource", "it has no embedded resources"),
            Expected("call: mixed content", "it keeps the first part only"),
        ),
    ),
    python(
        "mcpadapt",
        "0.1.20",
        "agents/mcpadapt_tools.py",
        "mcp<2",
        extra="[langchain]",
        transports=STDIO_HTTP,
        python="3.12",
        expected=(
            Expected("call: a default", "optional arguments are required"),
            Expected("call: a decimal", "optional arguments are required"),
            Expected("call: a literal", "optional arguments are required"),
            Expected("call: no result", "it fails on a result without content"),
            Expected("call: a picture", "it knows text only"),
            Expected("call: a sound", "it knows text only"),
            Expected("call: a link", "it knows text only"),
            Expected("call: an embedded resource", "it knows text only"),
            Expected("call: mixed content", "it keeps the first part only"),
        ),
    ),
    python(
        "crewai-tools",
        "1.15.30",
        "agents/crewai_adapter.py",
        extra="[mcp]",
        expected=(
            Expected("call: a TypedDict", "it sends null for an optional part that is left out"),
            Expected("call: mixed content", "it keeps text only"),
        ),
    ),
    python("google-adk", "2.13.0", "agents/google_adk_toolset.py", "mcp<2"),
    python(
        "semantic-kernel",
        "1.45.0",
        "agents/semantic_kernel_plugin.py",
        extra="[mcp]",
        expected=(
            Expected("call: a link", "it fails on resource links"),
            Expected("a tool added at run time", "it can wait for itself when a list changes", sometimes=True),
        ),
    ),
    python(
        "strands-agents",
        "1.62.0",
        "agents/strands_tools.py",
        expected=(
            Expected("call: a sound", "it drops audio"),
            Expected("call: a link", "it drops resource links"),
        ),
    ),
    python(
        "autogen-ext",
        "0.7.5",
        "agents/autogen_tools.py",
        "mcp<2",
        extra="[mcp]",
        expected=(
            Expected("call: any value", "it has no parameters without a type"),
            Expected("schemas for a model", "it has no parameters without a type"),
        ),
    ),
    python("mcp-haystack", "2.1.1", "agents/haystack_toolset.py"),
    python(
        "agno",
        "3.1.10",
        "agents/agno_tools.py",
        "fastmcp>=4,<5",
        expected=(Expected("call: a link", "it has no resource links"),),
    ),
    python(
        "dspy",
        "3.4.1",
        "agents/dspy_tools.py",
        extra="[mcp]",
        transports=("stdio",),
        expected=(
            Expected("call: a recursive type", "it recurses without end on recursive types"),
            Expected("call: mixed content", "it keeps text only"),
        ),
    ),
    python(
        "agent-framework-core", "1.23.0", "agents/agent_framework_tools.py", "mcp", "tenacity", transports=STDIO_HTTP
    ),
    python("huggingface_hub", "2.4.0", "agents/huggingface_session.py", extra="[mcp]"),
    python(
        "chuk-mcp",
        "0.9.4",
        "agents/chuk_messages.py",
        transports=("stdio",),
        expected=(Expected("question: roots is refused", "it declares roots and does not answer"),),
    ),
    python(
        "mcp-cli",
        "0.20.1",
        "programs/mcp_cli.py",
        transports=("stdio",),
        expected=(
            Expected("resources are listed", "its list of resources fails"),
            Expected("prompts are listed", "its list of prompts fails"),
        ),
    ),
    python("mcp-agent", "0.2.6", "agents/mcp_agent_aggregator.py", "mcp<2"),
    python("fast-agent-mcp", "0.10.46", "agents/fast_agent_client.py", python="3.12"),
    python(
        "mcpo",
        "0.0.20",
        "programs/mcpo.py",
        "mcp<2",
        "fastapi<0.120",
        without=("tree",),
        expected=(
            Expected("tools are listed", "it does not start with recursive types"),
            Expected("call: a recursive type", "it does not start with recursive types"),
            Expected("call: a sound", "it drops audio"),
            Expected("call: a link", "it drops resource links"),
            Expected("call: an embedded resource", "it has no embedded resources"),
        ),
    ),
    python(
        "mcp-proxy",
        "0.13.0",
        "programs/mcp_proxy.py",
        routes=(("stdio", "to-sse"), ("stdio", "to-http"), ("http", "to-stdio"), ("sse", "to-stdio")),
        expected=(
            Expected("question: *", "it passes on no questions of the server"),
            Expected("a cancelled call stops", "it passes on no cancellation"),
            Expected("progress arrives", "it passes on no progress over HTTP", ("stdio",), sometimes=True),
        ),
    ),
    python("snyk-agent-scan", "0.6.9", "programs/scan.py"),
    python("mcp-scan", "0.4.3", "programs/scan.py", notes="it starts only with the folder of its program on the PATH"),
    npm("@modelcontextprotocol/inspector", "0.14.3", "programs/inspector.py", transports=("stdio", "sse")),
    npm("@modelcontextprotocol/inspector", "0.16.8", "programs/inspector.py"),
    npm("@modelcontextprotocol/inspector", "2.12.0", "programs/inspector.py", node=24),
    npm("@modelcontextprotocol/sdk", "1.0.4", "node/sdk1.mjs", transports=("stdio",)),
    npm("@modelcontextprotocol/sdk", "1.12.1", "node/sdk1.mjs"),
    npm("@modelcontextprotocol/sdk", "1.20.2", "node/sdk1.mjs"),
    npm("@modelcontextprotocol/sdk", "1.32.2", "node/sdk1.mjs"),
    npm("@modelcontextprotocol/client", "2.4.0", "node/sdk2.mjs", modes=("auto", "legacy")),
    npm("@ai-sdk/mcp", "2.0.93", "node/ai_sdk.mjs", "ai"),
    npm("@mastra/mcp", "2.0.0", "node/mastra.mjs", "@mastra/core", transports=STDIO_HTTP, node=22),
    npm(
        "@langchain/mcp-adapters",
        "1.1.4",
        "node/langchain.mjs",
        "@langchain/core@1.2.13",
        "@langchain/langgraph@1.4.10",
    ),
    npm("@openai/agents", "0.20.0", "node/openai_agents.mjs", "zod"),
    npm("mcporter", "0.12.3", "programs/mcporter.py", transports=STDIO_HTTP),
    npm(
        "mcp-remote",
        "0.15.1",
        "programs/mcp_remote.py",
        transports=("http", "sse"),
        modes=("first", "only"),
        expected=(Expected("a cancelled call stops", "it passes on no cancellation over HTTP", ("http",)),),
    ),
    npm(
        "supergateway",
        "4.0.0",
        "programs/supergateway.py",
        routes=(
            ("stdio", "to-sse"),
            ("stdio", "to-http"),
            ("stdio", "to-http-stateful"),
            ("stdio", "to-ws"),
            ("http", "to-stdio"),
            ("sse", "to-stdio"),
        ),
        expected=(
            Expected("a cancelled call stops", "it passes on no cancellation, but to HTTP+SSE", modes=ALL_BUT_SSE),
            Expected("progress arrives", "it passes on no progress to stdio", ("http", "sse")),
            Expected("question: *", "it passes on no questions of the server over HTTP", ("http",)),
        ),
    ),
)

# Part of `make test`: the quickest of those that have found a defect, each on one transport and in one mode.
QUICK = {
    "mcp-2.0.0": ("http", "auto"),
    "fastmcp-3.4.10": ("stdio", ""),
    "langchain-mcp-adapters-0.3.2": ("stdio", ""),
    "autogen-ext-0.7.5": ("sse", ""),
    "modelcontextprotocol-sdk-1.0.4": ("stdio", ""),
    "supergateway-4.0.0": ("stdio", "to-sse"),
}
