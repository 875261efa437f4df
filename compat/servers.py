"""The servers that our client meets.

`{work}` in a command, an argument or an environment variable is a fresh folder with a few files and a git
repository, `{port}` a free port, `{drivers}` the folder with our own programs.
"""

from dataclasses import replace
from typing import Any

from .entries import Call, Expected, ThirdPartyServer

OFFLINE = "it needs the internet before it answers"
ONE_X = "mcp<2"


def python(name: str, version: str, *command: str, more: tuple[str, ...] = (), **options: Any) -> ThirdPartyServer:
    """A package of PyPI; the command is by default the program of its name."""
    packages = (f"{name}=={version}", *more)
    return ThirdPartyServer(name=name, version=version, packages=packages, command=command or (name,), **options)


def npm(name: str, version: str, *command: str, more: tuple[str, ...] = (), **options: Any) -> ThirdPartyServer:
    """A package of npm; the command is by default the program of its name."""
    packages = (f"{name}@{version}", *more)
    words = command or (name.rpartition("/")[2],)
    return ThirdPartyServer(name=name, version=version, packages=packages, command=words, registry="npm", **options)


def reference(name: str, version: str, *arguments: str, **options: Any) -> ThirdPartyServer:
    """A server of the protocol's own organisation, for npm."""
    return npm(f"@modelcontextprotocol/{name}", version, f"mcp-{name}", *arguments, **options)


def own(version: str, **options: Any) -> ThirdPartyServer:
    """A server that we wrote with FastMCP; it shares its environment with the client of that version."""
    calls = (
        Call("add", {"a": 1, "b": 2}),
        Call("person", {"name": "Ada"}),
        Call("listing"),
        Call("img"),
        Call("fail", fails=True),
        Call("ask"),
    )
    return ThirdPartyServer(
        name="a FastMCP server of ours, fastmcp",
        version=version,
        packages=(f"fastmcp=={version}",),
        command=("python", "{drivers}/sdk/fastmcp_server.py"),
        shares=f"fastmcp-{version}",
        calls=calls,
        **options,
    )


SERVERS = (
    python(
        "mcp-server-time",
        "2026.10.19",
        "mcp-server-time",
        "--local-timezone=UTC",
        calls=(
            Call("get_current_time", {"timezone": "UTC"}),
            Call("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Berlin"}),
            Call("get_current_time", {"timezone": "Nowhere"}, fails=True),
        ),
    ),
    python(
        "mcp-server-git",
        "2026.10.19",
        "mcp-server-git",
        "--repository",
        "{work}/repository",
        calls=(
            Call("git_status", {"repo_path": "{work}/repository"}),
            Call("git_log", {"repo_path": "{work}/repository"}),
        ),
    ),
    python(
        "mcp-server-fetch",
        "2026.10.24",
        calls=(Call("fetch", {"url": "http://127.0.0.1:1/"}, fails=True),),
    ),
    python(
        "mcp-server-sqlite",
        "2025.4.25",
        "mcp-server-sqlite",
        "--db-path",
        "{work}/data.sqlite",
        more=(ONE_X,),
        calls=(Call("list_tables"), Call("append_insight", {"insight": "it works"})),
    ),
    python(
        "mcp-server-motherduck",
        "1.1.0",
        "mcp-server-motherduck",
        "--db-path",
        ":memory:",
        "--read-write",
        calls=(Call("execute_query", {"sql": "select 1"}),),
    ),
    python("awslabs.aws-documentation-mcp-server", "1.2.3"),
    python("awslabs.aws-pricing-mcp-server", "1.1.1", env={"AWS_REGION": "us-east-1"}),
    python("awslabs.dynamodb-mcp-server", "2.1.8", calls=(Call("dynamodb_data_modeling"),)),
    python(
        "awslabs.aws-api-mcp-server",
        "1.3.24",
        more=(ONE_X,),
        env={"AWS_REGION": "us-east-1", "AWS_API_MCP_TELEMETRY": "false"},
    ),
    python(
        "arxiv-mcp-server",
        "0.8.2",
        "arxiv-mcp-server",
        "--storage-path",
        "{work}/papers",
        calls=(Call("list_papers"),),
    ),
    python(
        "markitdown-mcp",
        "0.0.1a7",
        calls=(Call("convert_to_markdown", {"uri": "file://{work}/page.html"}),),
    ),
    python(
        "chroma-mcp",
        "0.2.6",
        "chroma-mcp",
        "--client-type",
        "ephemeral",
        more=("pydantic<2.12",),
        calls=(Call("chroma_list_collections"),),
    ),
    python(
        "mcp-atlassian",
        "0.23.1",
        env={
            "JIRA_URL": "http://127.0.0.1:1",
            "JIRA_PERSONAL_TOKEN": "x",
            "CONFLUENCE_URL": "http://127.0.0.1:1",
            "CONFLUENCE_PERSONAL_TOKEN": "x",
        },
    ),
    python("serena-agent", "2.1.0", "serena", "start-mcp-server", "--enable-web-dashboard", "false"),
    python(
        "mcp-server-qdrant",
        "0.8.1",
        env={"QDRANT_LOCAL_PATH": "{work}/qdrant", "COLLECTION_NAME": "notes"},
        unavailable="it downloads a model before it answers",
    ),
    python(
        "excel-mcp-server",
        "2.2.2",
        "excel-mcp-server",
        "stdio",
        calls=(Call("create_workbook", {"filepath": "{work}/missing/folder/book.xlsx"}, fails=True),),
    ),
    python("basic-memory", "0.23.2", "basic-memory", "mcp", python="3.12", calls=(Call("list_memory_projects"),)),
    python("mcp-server-calculator", "0.2.1", more=(ONE_X,), calls=(Call("calculate", {"expression": "1+2"}),)),
    python("mcp-pandoc", "0.11.1"),
    python("office-word-mcp-server", "1.1.11", "word_mcp_server", calls=(Call("list_available_documents"),)),
    python(
        "office-powerpoint-mcp-server", "2.0.7", "ppt_mcp_server", more=(ONE_X,), calls=(Call("list_presentations"),)
    ),
    python("mcp-text-editor", "1.0.2", more=(ONE_X,)),
    python("mcp-server-tree-sitter", "0.7.0", more=(ONE_X,), calls=(Call("list_languages"),)),
    python("jupyter-mcp-server", "2.2.4", unavailable="it waits for a Jupyter server at port 8888"),
    python("yahoo-finance-mcp", "0.1.2", more=(ONE_X,)),
    python(
        "dbt-mcp",
        "2.8.0",
        python="3.12",
        expected=(Expected("the first resource", "it loads the resource from the internet"),),
    ),
    python(
        "semgrep-mcp", "0.9.0", more=("pydantic<2.12",), unavailable="it asks a server on the internet at its start"
    ),
    python("mcp-server-docker", "0.3.0", python="3.12", unavailable="it needs a Docker daemon"),
    python("kubernetes-mcp-server", "0.0.69", unavailable="it downloads its program at its start"),
    own("4.1.2", expected=(Expected("call 6: ask", "FastMCP 4 asks nothing on 2026-07-28"),)),
    own("3.4.10"),
    own("2.14.7"),
    reference(
        "server-everything",
        "2026.8.31",
        calls=(
            Call("echo", {"message": "hello"}),
            Call("get-sum", {"a": 1, "b": 2}),
            Call("trigger-long-running-operation", {"duration": 1, "steps": 2}),
            Call("get-structured-content", {"location": "New York"}),
            Call("get-tiny-image"),
            Call("trigger-elicitation-request"),
            Call("trigger-sampling-request", {"prompt": "hello", "maxTokens": 10}),
            Call("get-roots-list"),
        ),
    ),
    reference(
        "server-filesystem",
        "2026.8.31",
        "{work}",
        calls=(
            Call("list_directory", {"path": "{work}"}),
            Call("read_text_file", {"path": "{work}/page.html"}),
            Call("list_allowed_directories"),
            Call("read_text_file", {"path": "{work}/../secret"}, fails=True),
        ),
    ),
    reference(
        "server-memory",
        "2026.8.31",
        env={"MEMORY_FILE_PATH": "{work}/memory.jsonl"},
        calls=(
            Call("read_graph"),
            Call("create_entities", {"entities": [{"name": "Ada", "entityType": "user", "observations": ["writes"]}]}),
        ),
    ),
    reference(
        "server-sequential-thinking",
        "2026.8.31",
        calls=(
            Call(
                "sequentialthinking",
                {"thought": "one", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False},
            ),
        ),
    ),
    npm("@playwright/mcp", "0.0.83", "playwright-mcp"),
    npm("@upstash/context7-mcp", "4.1.1"),
    npm("firecrawl-mcp", "3.22.2", env={"FIRECRAWL_API_KEY": "x"}),
    npm("@notionhq/notion-mcp-server", "2.5.2"),
    npm(
        "@supabase/mcp-server-supabase",
        "0.13.0",
        "mcp-server-supabase",
        "--access-token",
        "x",
        expected=(Expected("tools are listed", "it asks a server on the internet for its tools"),),
    ),
    npm("mongodb-mcp-server", "3.0.4", calls=(Call("list-knowledge-sources", fails=True),)),
    npm("@azure/mcp", "2.0.5", "azmcp", "server", "start"),
    npm("chrome-devtools-mcp", "1.11.0", node=22),
    reference("server-github", "2025.4.8"),
    reference("server-puppeteer", "2025.5.12", env={"PUPPETEER_SKIP_DOWNLOAD": "1"}),
    reference(
        "server-postgres",
        "0.6.2",
        "postgresql://127.0.0.1:1/none",
        expected=(Expected("resources are listed", "there is no database"),),
    ),
    reference("server-slack", "2025.4.25", env={"SLACK_BOT_TOKEN": "x", "SLACK_TEAM_ID": "x"}),
    reference("server-brave-search", "0.6.2", env={"BRAVE_API_KEY": "x"}),
    npm("exa-mcp-server", "3.4.1", env={"EXA_API_KEY": "x"}),
    npm("tavily-mcp", "0.2.22", env={"TAVILY_API_KEY": "x"}),
    npm(
        "@stripe/mcp",
        "0.3.3",
        "mcp",
        "--tools=all",
        "--api-key=sk_test_x",
        unavailable="it is a proxy to a server on the internet",
    ),
    npm("@sentry/mcp-server", "0.36.0", "sentry-mcp", "--access-token=x"),
    npm("figma-developer-mcp", "0.13.2", "figma-developer-mcp", "--figma-api-key=x", "--stdio"),
    npm("mcp-server-kubernetes", "4.1.7", expected=(Expected("the first resource", "there is no cluster"),)),
    npm("@shopify/dev-mcp", "1.16.0", "shopify-dev-mcp"),
    npm("@heroku/mcp-server", "1.2.8", "heroku-mcp-server", unavailable="its package lacks a module that it imports"),
    npm("@modelcontextprotocol/server-map", "2.0.3", "mcp-map-server", "--stdio"),
    npm("nx-mcp", "0.25.0"),
    npm("shadcn", "4.23.0", "shadcn", "mcp"),
)


def endpoint(name: str, *command: str, path: str = "/mcp", host: str = "127.0.0.1", **options: Any) -> ThirdPartyServer:
    """A server of the table above over HTTP, in the same environment; `/sse` is the path of HTTP+SSE."""
    known = next(server for server in SERVERS if server.slug.startswith(name))
    kind = "SSE" if path.endswith("/sse") else "HTTP"
    options.setdefault("env", known.env)
    return replace(
        known,
        name=f"{known.name} over {kind}",
        command=command or known.command,
        url=f"http://{host}:{{port}}{path}",
        shares=known.environment.name,
        calls=options.pop("calls", known.calls),
        expected=options.pop("expected", ()),
        unavailable=options.pop("unavailable", ""),
        **options,
    )


OUR_FASTMCP = "a-FastMCP-server-of-ours--fastmcp"
FASTMCP_SCRIPT = ("python", "{drivers}/sdk/fastmcp_server.py")
NO_QUESTIONS = (Expected("call 6: ask", "FastMCP 4 asks nothing on 2026-07-28"),)
TOKEN = "a-token-of-the-table"

ENDPOINTS = (
    endpoint(
        "modelcontextprotocol-server-everything",
        "mcp-server-everything",
        "streamableHttp",
        env={"PORT": "{port}"},
    ),
    endpoint(
        "modelcontextprotocol-server-everything", "mcp-server-everything", "sse", path="/sse", env={"PORT": "{port}"}
    ),
    endpoint(f"{OUR_FASTMCP}-4", *FASTMCP_SCRIPT, "http", "{port}", expected=NO_QUESTIONS),
    endpoint(f"{OUR_FASTMCP}-4", *FASTMCP_SCRIPT, "sse", "{port}", path="/sse"),
    endpoint(f"{OUR_FASTMCP}-3", *FASTMCP_SCRIPT, "http", "{port}"),
    endpoint(f"{OUR_FASTMCP}-2", *FASTMCP_SCRIPT, "http", "{port}"),
    endpoint(f"{OUR_FASTMCP}-2", *FASTMCP_SCRIPT, "sse", "{port}", path="/sse"),
    endpoint("mongodb", "mongodb-mcp-server", "--transport", "http", "--httpPort", "{port}"),
    endpoint("upstash", "context7-mcp", "--transport", "http", "--port", "{port}"),
    endpoint("markitdown", "markitdown-mcp", "--http", "--host", "127.0.0.1", "--port", "{port}"),
    endpoint("markitdown", "markitdown-mcp", "--http", "--host", "127.0.0.1", "--port", "{port}", path="/sse"),
    endpoint(
        "mcp-server-motherduck",
        *("mcp-server-motherduck", "--db-path", ":memory:", "--read-write"),
        *("--transport", "http", "--port", "{port}"),
    ),
    endpoint(
        "serena",
        *("serena", "start-mcp-server", "--enable-web-dashboard", "false"),
        *("--transport", "streamable-http", "--port", "{port}"),
    ),
    endpoint("figma", "figma-developer-mcp", "--figma-api-key=x", "--port={port}"),
    endpoint("modelcontextprotocol-server-map", "mcp-map-server", env={"PORT": "{port}"}),
    endpoint(
        "mcp-server-kubernetes",
        env={"ENABLE_UNSAFE_STREAMABLE_HTTP_TRANSPORT": "1", "PORT": "{port}"},
        expected=(Expected("the first resource", "there is no cluster"),),
    ),
    endpoint(
        "office-word",
        "word_mcp_server",
        env={"MCP_TRANSPORT": "streamable-http", "MCP_PORT": "{port}", "PORT": "{port}"},
    ),
    endpoint("basic-memory", "basic-memory", "mcp", "--transport", "streamable-http", "--port", "{port}"),
    endpoint("arxiv", env={"TRANSPORT": "http", "PORT": "{port}", "HOST": "127.0.0.1"}),
    endpoint("nx-mcp", "nx-mcp", "--transport", "http", "--port", "{port}"),
    endpoint(
        "firecrawl",
        env={"FIRECRAWL_API_KEY": "x", "HTTP_STREAMABLE_SERVER": "true", "PORT": "{port}", "HOST": "127.0.0.1"},
    ),
    endpoint("playwright", "playwright-mcp", "--port", "{port}", host="localhost"),
    endpoint("playwright", "playwright-mcp", "--port", "{port}", host="localhost", path="/sse"),
    endpoint(
        "notionhq",
        *("notion-mcp-server", "--transport", "http", "--port", "{port}", "--auth-token", TOKEN),
        headers={"Authorization": f"Bearer {TOKEN}"},
    ),
    endpoint(
        "mcp-atlassian",
        *("mcp-atlassian", "--transport", "streamable-http", "--port", "{port}"),
        unavailable="it wants the credentials of a user of Atlassian",
    ),
    endpoint(
        "mcp-atlassian",
        *("mcp-atlassian", "--transport", "sse", "--port", "{port}"),
        path="/sse",
        unavailable="it wants the credentials of a user of Atlassian",
    ),
    endpoint("excel", "excel-mcp-server", "streamable-http", "--port", "{port}"),
    endpoint("office-powerpoint", "python", "-m", "ppt_mcp_server", "--transport", "http", "--port", "{port}"),
)
