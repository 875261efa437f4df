"""mcp-cli, which lists what a server has."""

import asyncio

from places import Questions, arguments, binary, config


async def main() -> None:
    transport, _, target = arguments()
    questions = Questions()
    options = ("--config-file", str(config(transport, target)), "--server", "compat")
    program = binary("mcp-cli")
    await questions.ask("connect", [program, "tools", *options, "--raw"], "add", "grow")
    await questions.ask("resources are listed", [program, "resources", *options], "note://welcome")
    await questions.ask("prompts are listed", [program, "prompts", *options], "review")
    call = [program, "cmd", *options, "--tool", "status", "--tool-args", "{}"]
    await questions.ask("the revision", call, "revision")
    questions.write()


if __name__ == "__main__":
    asyncio.run(main())
