"""A server over stdio with as many tools as its argument says."""

import sys

from dovetail import Server

server = Server("many", version="1.0.0")


async def tool(city: str, days: int = 3, unit: str = "metric") -> str:
    """Return the weather of a city for some days; one of many tools that are alike."""
    return f"{city} {days} {unit}"


for number in range(int(sys.argv[1])):
    server.tool(tool, name=f"tool_{number}")
server.run()
