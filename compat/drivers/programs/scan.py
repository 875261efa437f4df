"""The scanners, which describe what a server has."""

import asyncio

from places import HOME, Questions, arguments, binary, config


async def main() -> None:
    transport, _, target = arguments()
    questions = Questions()
    name = "mcp-scan" if HOME.name.startswith("mcp-scan") else "snyk-agent-scan"
    program = [binary(name), "inspect", str(config(transport, target)), "--json", "--dangerously-run-mcp-servers"]
    await questions.ask("connect", program, "grow", "note://welcome", "review")
    questions.write()


if __name__ == "__main__":
    asyncio.run(main())
