"""A statement's text and its places: offsets of the text become lines and columns for people."""

from __future__ import annotations

import re
from bisect import bisect_right
from copy import copy
from functools import cached_property

from lakestream.errors import Place, StatementError
from lakestream.language.model import Fragment

_REFUSED = re.compile("[\x00\ud800-\udfff]")
BYTE_ORDER_MARK = "\ufeff"


class Source:
    """A text, or a fragment of one, that errors can point into.

    Lines are counted as :meth:`str.splitlines` does, so that :meth:`Place.caret` shows the same line.
    ``spark``: the functions of its fragments are Spark's, not TDengine's.
    """

    def __init__(
        self, text: str, *, line: int = 1, column: int = 1, whole: str = "", file: str | None = None
    ) -> None:
        self.text = text
        self.whole = whole or text
        self._line = line
        self._column = column
        self._file = file
        self.spark = False

    @classmethod
    def of_fragment(cls, fragment: Fragment) -> Source:
        """Return the source of a fragment, with places in the statement that it was cut from."""
        return cls(fragment.sql, line=fragment.line, column=fragment.column, whole=fragment.statement)

    def with_spark_functions(self) -> Source:
        """Return the same text, of which functions are Spark's in each fragment."""
        same = copy(self)
        same.spark = True
        return same

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column, both from 1, of an offset from 0."""
        # The last start belongs to the end of the text unless that ends in a line break.
        row = min(bisect_right(self._starts, offset) - 1, max(0, len(self._starts) - 2))
        column = offset - self._starts[row] + 1
        return self._line + row, column + (self._column - 1 if row == 0 else 0)

    def offset(self, line: int, column: int) -> int:
        """Return the offset of line and column, as :meth:`position` gives them."""
        row = line - self._line
        return self._starts[row] + column - (self._column if row == 0 else 1)

    def place(self, start: int, end: int) -> Place:
        """Return the place of the characters from ``start`` up to, not including, ``end``."""
        line, column = self.position(start)
        return Place(line, column, max(1, end - start), self.whole, self._file)

    def fragment(self, start: int, end: int) -> Fragment:
        """Return the slice from ``start`` up to ``end`` with its place."""
        line, column = self.position(start)
        return Fragment(self.text[start:end], line, column, self.whole, spark=self.spark)

    def refuse_characters(self) -> None:
        """Raise BAD_CHARACTER for a NUL or a lone surrogate, which no table can store."""
        found = _REFUSED.search(self.text)
        if found:
            raise StatementError(
                "BAD_CHARACTER",
                f"the character U+{ord(found.group()):04X} may not stand in a statement",
                hint="remove it",
                place=self.place(found.start(), found.end()),
            )


def place_of(fragment: Fragment) -> Place:
    """Return the place of a whole fragment in its statement."""
    written = fragment.written or fragment.sql
    first_line = written.splitlines()[0] if written else ""
    return Place(fragment.line, fragment.column, max(1, len(first_line)), fragment.statement or written)


def decoded(content: bytes, name: str) -> str:
    """Return UTF-8 text, with or without a byte order mark, of the file of a name.

    Raises StatementError NOT_UTF8 with the place of the first byte that is none.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", errors="replace")
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        raise StatementError(
            "NOT_UTF8",
            f"the byte 0x{content[error.start]:02x} is not UTF-8 text",
            hint="save the file as UTF-8",
            place=Place(line, column, file=name),
        ) from None
