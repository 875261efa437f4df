"""One server for all Python libraries, with what they treat differently; the interpreter has one of them."""

try:
    from fastmcp import FastMCP
except ImportError:
    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError:
        try:
            from mcp.server.mcpserver import MCPServer as FastMCP
        except ImportError:
            from dovetail import Server as FastMCP

try:
    from fastmcp.exceptions import ToolError
except ImportError:
    try:
        from mcp.server.fastmcp.exceptions import ToolError
    except ImportError:
        try:
            from mcp.server.mcpserver.exceptions import ToolError
        except ImportError:
            from dovetail import ToolError

server = FastMCP("differences")


@server.tool()
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@server.tool()
def total(numbers: list[int]) -> int:
    """Add numbers."""
    return sum(numbers)


@server.tool()
def words() -> list[str]:
    """Return two words."""
    return ["a", "b"]


@server.tool()
def record() -> dict[str, int]:
    """Return an object."""
    return {"a": 1}


@server.tool()
def nothing() -> None:
    """Return nothing."""


@server.tool()
def refuse() -> str:
    """Fail on purpose."""
    raise ToolError("closed")


@server.tool()
def fail() -> str:
    """Fail by mistake."""
    raise ValueError("no such city")


@server.resource("differences://data")
def data() -> dict[str, int]:
    """Return an object."""
    return {"a": 1}


if __name__ == "__main__":
    server.run()
