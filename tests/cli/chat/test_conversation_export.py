"""A conversation as Markdown for readers, and as JSON for programs."""

import json

from dovetail.cli.chat.conversation_export import as_json, as_markdown
from dovetail.host.chat.provenance import framed
from dovetail.types.client_features import SamplingMessage
from dovetail.types.content import Image, Text, ToolResultContent, ToolUse

MESSAGES = [
    SamplingMessage(role="user", content=Text(text="What is 1 + 2?")),
    SamplingMessage(role="assistant", content=[Text(text="I add."), ToolUse(id="u", name="calc__add", input={"a": 1})]),
    SamplingMessage(
        role="user",
        content=[ToolResultContent(tool_use_id="u", content=[Text(text=framed("calc", "```\n3\n```", tool="add"))])],
    ),
    SamplingMessage(role="assistant", content=Text(text="It is **3**.")),
    SamplingMessage(role="user", content=[Image(data=b"abc", mime_type="image/png"), Text(text="And this?")]),
]


def test_markdown_has_speakers_calls_and_results() -> None:
    assert (
        as_markdown(MESSAGES, "qwen", "Sums")
        == """# Sums

Model: qwen

## User

What is 1 + 2?

## Assistant

I add.

**Calls `calc__add`**

```json
{
  "a": 1
}
```

**Result**

````
```
3
```
````

It is **3**.

## User

*[image image/png, 3 bytes]*

And this?
"""
    )


def test_json_has_the_messages_of_the_protocol() -> None:
    content = json.loads(as_json(MESSAGES, "qwen"))
    assert content["model"] == "qwen" and len(content["messages"]) == 5
    assert content["messages"][0] == {"role": "user", "content": {"type": "text", "text": "What is 1 + 2?"}}
