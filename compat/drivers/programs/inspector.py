"""The command line of the official inspector, which makes one request for each run."""

import asyncio

from places import HOME, Questions, arguments, binary

NODE = str(HOME / "bin" / "node")


async def main() -> None:
    transport, _, target = arguments()
    questions = Questions()
    server = [*target]
    # The first versions have HTTP+SSE only, and no option for it.
    if transport != "stdio" and "inspector-0.14" not in HOME.name:
        server += ["--transport", transport]

    def command(method: str, *options: str) -> list[str]:
        return [NODE, binary("mcp-inspector"), "--cli", *server, "--method", method, *options]

    def call(tool: str, *options: str) -> list[str]:
        named = [word for option in options for word in ("--tool-arg", option)]
        return command("tools/call", "--tool-name", tool, *named)

    await questions.ask("connect", command("tools/list"), "add", "grow", "inputSchema")
    await questions.ask("resources are listed", command("resources/list"), "note://welcome", "note://settings")
    await questions.ask("resource templates are listed", command("resources/templates/list"), "file:///{path*}")
    await questions.ask("a text resource", command("resources/read", "--uri", "note://welcome"), "# Welcome")
    await questions.ask("prompts are listed", command("prompts/list"), "review", "language")
    prompt = command("prompts/get", "--prompt-name", "review", "--prompt-args", "code=x")
    await questions.ask("a prompt", prompt, "Review this python: x")
    await questions.ask("call: integers", call("add", "a=1", "b=2"), "3")
    await questions.ask("call: no arguments", call("now"), "12:00")
    await questions.ask("call: no result", call("forget", "key=a"))
    await questions.ask("call: a picture", call("picture"), "iVBORw0KGgoAAAANSUhEUg")
    await questions.ask("failure: an error for the model", call("fail"), "no such luck", fails=None)
    await questions.ask("the revision", call("status"), "revision")
    questions.write()


if __name__ == "__main__":
    asyncio.run(main())
