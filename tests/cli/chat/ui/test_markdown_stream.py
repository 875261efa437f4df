"""Markdown while it streams in: complete blocks are drawn once and never change, the rest is bounded."""

import re

import pytest

from dovetail.cli.chat.ui.markdown_blocks import MAX_OPEN, MAX_OPEN_LINES, Block, BlockSplitter, CodeLine, TextBlock
from dovetail.cli.chat.ui.markdown_stream import MarkdownStream
from dovetail.cli.output import width_of

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

ANSWER = """# A trip

It will be **sunny**, with *some* wind; see [the forecast](https://example.com/f) and call `pack()`.

1. First
2. Second
   - inner

   still the second

```python
def f():
    '''Text
    over lines'''

    return 1
```

| day | sky |
|---|---|
| Mon | clear |
| Tue | rain |

> quoted

Last words.
"""


def split(text: str, size: int) -> list[Block]:
    splitter = BlockSplitter()
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    return [block for piece in pieces for block in splitter.feed(piece)] + splitter.flush()


def drawn(text: str, size: int = 7, width: int = 60) -> list[str]:
    """The lines that stay, without colours."""
    stream = MarkdownStream()
    lines: list[str] = []
    for place in range(0, len(text), size):
        lines += stream.feed(text[place : place + size], width)
        stream.open_lines(width)
    return [_ESCAPE.sub("", line).rstrip() for line in [*lines, *stream.flush(width)]]


@pytest.mark.parametrize("size", [1, 3, 50, 10_000])
def test_pieces_of_any_size_give_the_same_blocks(size: int) -> None:
    blocks = split(ANSWER, size)
    assert [block.text for block in blocks if isinstance(block, TextBlock)] == [
        "# A trip",
        "It will be **sunny**, with *some* wind; see [the forecast](https://example.com/f) and call `pack()`.",
        "1. First\n2. Second\n   - inner\n\n   still the second",
        "| day | sky |\n|---|---|\n| Mon | clear |\n| Tue | rain |",
        "> quoted",
        "Last words.",
    ]
    code = [block for block in blocks if isinstance(block, CodeLine)]
    assert [line.text for line in code] == ["def f():", "    '''Text", "    over lines'''", "", "    return 1"]
    assert {line.language for line in code} == {"python"} and [line.first for line in code].count(True) == 1


def test_lines_of_code_are_complete_one_by_one() -> None:
    splitter = BlockSplitter()
    splitter.feed("```sh\nls")
    assert splitter.open_block == CodeLine("ls", "sh", first=True)
    assert splitter.feed(" -l\n``") == [CodeLine("ls -l", "sh", first=True)]
    assert splitter.feed("`\n") == [] and splitter.open_block is None


def test_code_goes_on_as_code_after_other_output() -> None:
    splitter = BlockSplitter()
    splitter.feed("```\none\ntw")
    assert splitter.flush() == [CodeLine("tw", "")]
    assert splitter.feed("# no heading\n") == [CodeLine("# no heading", "")]
    splitter.reset()
    assert splitter.feed("# a heading\n\nx\n") == [TextBlock("# a heading")]


@pytest.mark.parametrize(
    "text", ["word " * 20_000, "x" * 100_000, "- item\n" * 5_000, "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5_000]
)
def test_what_is_open_is_bounded(text: str) -> None:
    splitter = BlockSplitter()
    for place in range(0, len(text), 40):
        splitter.feed(text[place : place + 40])
        still = splitter.open_block
        assert still is None or (len(still.text) <= MAX_OPEN + 100 and still.text.count("\n") <= MAX_OPEN_LINES + 10)


def test_a_table_that_is_too_long_goes_on_with_its_header() -> None:
    blocks = split("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * (MAX_OPEN_LINES + 10), 10)
    assert len(blocks) == 2 and all(block.text.startswith("| a | b |\n|---|---|\n| 1") for block in blocks)


def test_an_answer_is_wrapped_at_words_and_has_no_marks_left() -> None:
    lines = drawn(ANSWER)
    assert lines[:2] == ["A trip", ""]
    assert lines[2].startswith("It will be sunny, with some wind; see the forecast")
    assert "(https://example.com/f)" in "".join(lines), "an address is never hidden behind its text"
    assert "  def f():" in lines and "      return 1" in lines
    assert any(re.fullmatch(r" *Mon +clear", line) for line in lines)
    assert all(width_of(line) <= 60 for line in lines)
    assert not any("**" in line or "```" in line or "|--" in line for line in lines)
    words = [word for line in lines for word in line.split()]
    assert "wind;" in words and "forecast" in words


def test_lines_that_stay_do_not_depend_on_the_pieces() -> None:
    assert drawn(ANSWER, 1) == drawn(ANSWER, 11) == drawn(ANSWER, 10_000)


@pytest.mark.parametrize(
    "text", ["\x1b[2Jgone", "&#8238;drow", "&#x1b;[2J", "[a](http://x/&#8238;b)", "```\n\x1b[2J\n```\n", "`\u202ecode`"]
)
def test_hostile_text_does_not_reach_the_terminal(text: str) -> None:
    stream = MarkdownStream()
    lines = [*stream.feed(text, 80), *stream.open_lines(80), *stream.flush(80)]
    left = _ESCAPE.sub("", "".join(lines))
    assert "\x1b" not in left and "\u202e" not in left


def test_a_long_answer_is_drawn_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.cli.chat.ui.markdown_stream import MarkdownRenderer

    sizes: list[int] = []
    text_of = MarkdownRenderer.text

    def counted(self: MarkdownRenderer, text: str) -> list[str]:
        sizes.append(len(text))
        return text_of(self, text)

    monkeypatch.setattr(MarkdownRenderer, "text", counted)
    stream = MarkdownStream()
    for number in range(400):
        stream.feed(f"Paragraph {number} has some words.\n\n", 80)
    assert max(sizes) < 100 and len(sizes) == 399, "each paragraph is drawn once"
