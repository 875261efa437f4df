"""A list to pick from with the arrow keys, drawn below the transcript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window

from dovetail.cli.chat.views.rendering import exact
from dovetail.cli.output import width_of

from .contract import Choice, LiveRows, Row
from .key_prompt import ANY, ESCAPE_WAIT, bindings, interrupt, leave, pack

_REFRESH_SECONDS = 0.3
_FRAME = 6
"""Lines around the list: title, filter, keys, and a margin."""

_ALIGNED = 28
"""Columns of a text up to which notes begin below each other."""

_NAMES = {"enter": "Enter", "space": "Space"}


class Picker:
    """A list with a cursor and a filter."""

    def __init__(
        self, title: str, rows: Sequence[Row] | LiveRows, keys: Mapping[str, str], start: int, filter_text: str = ""
    ) -> None:
        self._title = title
        self._live = rows if callable(rows) else None
        self._rows: Sequence[Row] = rows() if callable(rows) else rows
        self._keys = keys
        self._filter = filter_text
        self._filtering = False
        self._at = 0
        self._at = next((n for n, (index, _) in enumerate(self._shown()) if index == start), 0)

    @property
    def filter_text(self) -> str:
        """The filter text."""
        return self._filter

    def application(self, source: Input) -> Application[Choice | None]:
        """Create the prompt_toolkit application, which can run once."""
        rows = Window(
            FormattedTextControl(self._text, focusable=True, show_cursor=False),
            wrap_lines=False,
            dont_extend_height=True,
        )
        keys = Window(FormattedTextControl(self._help), wrap_lines=True, dont_extend_height=True)
        app: Application[Choice | None] = Application(
            layout=Layout(HSplit([rows, keys])),
            key_bindings=self._bindings(),
            erase_when_done=True,
            input=source,
            refresh_interval=_REFRESH_SECONDS if self._live is not None else None,
        )
        app.ttimeoutlen = ESCAPE_WAIT
        return app

    def _shown(self) -> list[tuple[int, Row]]:
        word = self._filter.lower()
        return [
            (index, row)
            for index, row in enumerate(self._rows)
            if word in f"{row.heading} {row.text} {row.note}".lower()
        ]

    def _text(self) -> StyleAndTextTuples:
        from prompt_toolkit.application import get_app

        if self._live is not None:
            self._rows = self._live()
            self._move(0)
        size = get_app().output.get_size()
        room = max(size.rows - _FRAME, 3)
        lines, at = self._lines()
        first = min(max(at - room // 2, 0), max(len(lines) - room, 0))
        shown = [piece for line in lines[first : first + room] for piece in line]
        shown[-1] = (shown[-1][0], shown[-1][1].removesuffix("\n"))
        count = len(self._shown())
        more = f" ({self._at + 1} of {count})" if count else ""
        sought = f"  /{self._filter}" if self._filtering or self._filter else ""
        return [("bold", _line(f"{self._title}{more}{sought}") + "\n"), *shown]

    def _lines(self) -> tuple[list[StyleAndTextTuples], int]:
        """The list with its headings, and the line of the cursor."""
        lines: list[StyleAndTextTuples] = []
        at, heading = 0, None
        indent = max((width for row in self._rows if (width := width_of(row.text)) <= _ALIGNED), default=0)
        for number, (_, row) in enumerate(self._shown()):
            if row.heading != heading and row.heading:
                lines.append([("ansicyan", _line(row.heading) + "\n")])
            heading = row.heading
            here = number == self._at
            if here:
                at = len(lines)
            text = row.text + " " * (indent - width_of(row.text)) if row.note else row.text
            words = [
                word for word in (">" if here else " ", row.mark, text, f" {row.note}" if row.note else "") if word
            ]
            lines.append([("reverse" if here else "", _line(" ".join(words))), ("", "\n")])
        return lines or [[("", "  nothing here\n")]], at

    def _help(self) -> StyleAndTextTuples:
        if self._filtering:
            return [("ansibrightblack", "type to filter the list, Enter when done, Esc to see all")]
        from prompt_toolkit.application import get_app

        leave_words = "Esc all" if self._filter else "q quit"
        items = [_line(f"{_NAMES.get(key, key)} {text}") for key, text in self._keys.items()]
        items += ["/ filter", leave_words]
        lines = pack(items, get_app().output.get_size().columns - 1)
        return [("ansibrightblack", "\n".join("  ".join(items[number] for number in line) for line in lines))]

    def _bindings(self) -> KeyBindings:
        return bindings(
            {
                "up": lambda _: self._move(-1),
                "down": lambda _: self._move(1),
                "pageup": lambda _: self._move(-10),
                "pagedown": lambda _: self._move(10),
                "enter": self._enter,
                "backspace": self._shorter,
                ANY: self._typed,
                "escape": self._escape,
                "c-d": leave,
                "c-c": interrupt,
            }
        )

    def _move(self, by: int) -> None:
        self._at = min(max(self._at + by, 0), max(len(self._shown()) - 1, 0))

    def _enter(self, event: KeyPressEvent) -> None:
        if self._filtering:
            self._filtering = False
        else:
            self._choose(event, "enter")

    def _escape(self, event: KeyPressEvent) -> None:
        """Clear the filter; without one, leave."""
        if not self._filtering and not self._filter:
            leave(event)
            return
        shown = self._shown()
        row = shown[self._at][0] if shown else 0
        self._filter, self._filtering = "", False
        self._at = row

    def _shorter(self, event: KeyPressEvent) -> None:
        self._filter = self._filter[:-1]
        self._move(0)

    def _typed(self, event: KeyPressEvent) -> None:
        char = event.data
        if self._filtering:
            self._filter += char if char.isprintable() else ""
            self._at = 0
        elif char == "/":
            self._filtering = True
        elif char == "q":
            event.app.exit(result=None)
        else:
            self._choose(event, "space" if char == " " else char)

    def _choose(self, event: KeyPressEvent, key: str) -> None:
        shown = self._shown()
        if key in self._keys and shown:
            event.app.exit(result=Choice(shown[self._at][0], key))


def _line(text: str) -> str:
    """Text on one line. The edge of the terminal cuts it off; the full text is shown after picking."""
    return exact(text).replace("\n", " ").replace("\t", " ")
