"""Lines, streamed text and questions do not get into each other."""

from contextvars import copy_context

from dovetail.cli.chat.ui.colours import Paint
from dovetail.cli.chat.ui.transcript import Transcript


class Page:
    def __init__(self) -> None:
        self.text = ""
        self.transcript = Transcript(self.write, Paint(False), lambda: 40)

    def write(self, text: str) -> None:
        self.text += text


def test_a_line_begins_a_line() -> None:
    page = Page()
    page.transcript.stream("half ")
    page.transcript.stream("a text")
    page.transcript.say("a line")
    page.transcript.stream("whole\n")
    page.transcript.say("another")
    assert page.text == "half a text\na line\nwhole\nanother\n"


def test_what_happens_by_itself_waits_for_the_end_of_a_line() -> None:
    page = Page()
    page.transcript.stream("half ")
    page.transcript.notice("news")
    page.transcript.stream("a text\n")
    page.transcript.notice("more news")
    assert page.text == "half a text\nnews\nmore news\n"


def test_a_question_stays_in_one_piece() -> None:
    page = Page()
    elsewhere = copy_context()
    with page.transcript.question():
        page.transcript.say("May it?")
        elsewhere.run(page.transcript.stream, "the model ")
        elsewhere.run(page.transcript.say, "a tool")
        elsewhere.run(page.transcript.notice, "news")
        page.transcript.say("It may.")
        assert page.transcript.within and not elsewhere.run(lambda: page.transcript.within)
    assert page.text == "May it?\nIt may.\nthe model \na tool\nnews\n"


def test_nothing_plays_with_the_terminal() -> None:
    page = Page()
    page.transcript.stream("\x1b[2J")
    page.transcript.say("\x1b]0;owned\x07")
    assert "\x1b" not in page.text and "\x07" not in page.text
