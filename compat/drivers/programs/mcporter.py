"""mcporter, which makes one call for each run."""

import asyncio

from places import Questions, arguments, binary, config


async def main() -> None:
    transport, _, target = arguments()
    questions = Questions()
    program = [binary("mcporter"), "--config", str(config(transport, target))]

    def call(tool: str, *options: str) -> list[str]:
        return [*program, "call", f"compat.{tool}", *options]

    await questions.ask("connect", [*program, "list", "compat", "--json"], "add", "grow")
    await questions.ask("resources are listed", [*program, "resource", "compat"], "note://welcome")
    await questions.ask("a text resource", [*program, "resource", "compat", "note://welcome"], "# Welcome")
    await questions.ask("call: integers", call("add", "a=1", "b=2"), "3")
    await questions.ask("call: no arguments", call("now"), "12:00")
    await questions.ask("call: no result", call("forget", "key=a"))
    await questions.ask("call: an embedded resource", call("embedded"), "embedded text")
    await questions.ask("failure: an error for the model", call("fail"), "no such luck", fails=None)
    await questions.ask("the revision", call("status"), "revision")
    questions.write()


if __name__ == "__main__":
    asyncio.run(main())
