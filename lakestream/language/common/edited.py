"""A text with pieces of it replaced, and the way back from its places to those of the text as written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.language.common.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.errors import Place


@dataclass(frozen=True, order=True)
class Edit:
    """What stands in the place of the characters ``[start, end)``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Edited:
    """A text as ``written``, and with its ``edits``, which are in order and do not overlap."""

    written: str
    edits: tuple[Edit, ...] = ()

    @classmethod
    def by(cls, written: str, edits: Sequence[Edit]) -> Edited:
        """Return a text with edits in any order."""
        return cls(written, tuple(sorted(edits)))

    @property
    def text(self) -> str:
        """The text with its edits."""
        parts, at = [], 0
        for edit in self.edits:
            parts += [self.written[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.written[at:]])

    def offset(self, edited: int) -> int:
        """Return the offset in the text as written; within an edit it is the edit's start."""
        grown = 0
        for edit in self.edits:
            start = edit.start + grown
            if edited < start:
                break
            if edited < start + len(edit.text):
                return edit.start
            grown += len(edit.text) - (edit.end - edit.start)
        return edited - grown

    def place(self, place: Place) -> Place:
        """Return a place of the edited text as one of the text as written, with that text."""
        at = Source(self.text).offset(place.line, place.column)
        start, end = self.offset(at), self.offset(at + place.length)
        if end == start:  # within one edit
            end = next((edit.end for edit in self.edits if edit.start == start), start + 1)
        line, column = Source(self.written).position(start)
        return replace(place, line=line, column=column, length=max(1, end - start), text=self.written)
