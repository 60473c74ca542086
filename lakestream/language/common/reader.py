"""A cursor over a statement's words: the small steps that every statement's reader is made of."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

from lakestream.errors import NotSupportedError, StatementError, did_you_mean
from lakestream.language.common.durations import read_duration
from lakestream.language.common.words import Kind, Word
from lakestream.language.model import CatalogName, Duration, Fragment, Now, TableName, Value
from lakestream.language.names import (
    check_catalog_name,
    check_column_name,
    check_database_name,
    check_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakestream.errors import Place
    from lakestream.language.common.source import Source

_MAX_NUMBER = 60
_MAX_INSTANT = 18
_CATALOG_PARTS = 3
T = TypeVar("T")


class Reader:
    """Reads the words of one statement from left to right; all errors carry their place."""

    def __init__(self, source: Source, words: list[Word], dialect: str = "tdengine") -> None:
        self.source = source
        self.words = words
        self.dialect = dialect
        self.at = 0
        end = words[-1].end
        self._end = Word(Kind.END, "", end, end)

    # --- looking ------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Word:
        """Return a word without taking it; the END word past the last."""
        index = self.at + ahead
        return self.words[index] if index < len(self.words) else self._end

    @property
    def done(self) -> bool:
        """True when all words are taken."""
        return self.at >= len(self.words)

    def sees(self, *words: str) -> bool:
        """Tell whether these keywords follow, without regard to case."""
        return all(self.peek(i).is_word(word) for i, word in enumerate(words))

    def sees_symbol(self, symbol: str) -> bool:
        """Tell whether a punctuation mark follows."""
        return self.peek().is_symbol(symbol)

    # --- taking -------------------------------------------------------------------------------

    def take(self) -> Word:
        """Take the next word; the END word stays."""
        word = self.peek()
        self.at += 1
        return word

    def accept(self, *words: str) -> bool:
        """Take these keywords when they follow."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        """Take a punctuation mark when it follows."""
        if not self.sees_symbol(symbol):
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        """Take these keywords or raise SYNTAX."""
        for word in words:
            if not self.accept(word):
                raise self.unexpected(word)

    def expect_symbol(self, symbol: str) -> None:
        """Take a punctuation mark or raise SYNTAX."""
        if not self.accept_symbol(symbol):
            raise self.unexpected(symbol)

    def expect_end(self, known: Iterable[str] = ()) -> None:
        """Raise SYNTAX when words are left, with a hint from the clauses that may stand there."""
        if not self.done:
            raise self.unexpected("the end of the statement", known)

    # --- errors -------------------------------------------------------------------------------

    def place(self, word: Word | None = None) -> Place:
        """Return the place of a word, of the next one by default."""
        word = word or self.peek()
        return self.source.place(word.start, word.end)

    def error(self, code: str, message: str, *, word: Word | None = None, hint: str = "") -> StatementError:
        """Return an error at a word, at the next one by default."""
        return StatementError(code, message, hint=hint, place=self.place(word))

    def unexpected(self, wanted: str, known: Iterable[str] = ()) -> StatementError:
        """Return the SYNTAX error for the next word, where something else was wanted."""
        word = self.peek()
        found = word.text if len(word.text) <= _MAX_NUMBER else f"{word.text[:_MAX_NUMBER]}…"
        shown = f"{found!r}" if word.kind is not Kind.END else "the end of the statement"
        hint = did_you_mean(word.text, known) if word.kind is Kind.WORD else ""
        return self.error("SYNTAX", f"expected {wanted}, found {shown}", hint=hint)

    def unsupported(self, what: str, *, word: Word | None = None, hint: str = "") -> NotSupportedError:
        """Return the error for something that is known by name and not built."""
        return NotSupportedError(what, hint=hint, place=self.place(word))

    # --- names --------------------------------------------------------------------------------

    def identifier(self, what: str) -> tuple[str, Word]:
        """Take a name, quoted or not, unchecked."""
        word = self.peek()
        if word.kind not in (Kind.WORD, Kind.NAME):
            hint = "strings stand in quotes, names in back-ticks" if word.kind is Kind.STRING else ""
            error = self.unexpected(what)
            error.hint = error.hint or hint
            raise error
        return self.take().text, word

    def table_name(self, what: str = "a table's name") -> TableName:
        """Take ``[database.]name``."""
        first, word = self.identifier(what)
        line, column = self.source.position(word.start)
        if not self.accept_symbol("."):
            return TableName(None, check_name(first, self.place(word)), line, column)
        check_database_name(first, self.place(word))
        second, word = self.identifier(what)
        if self.sees_symbol("."):
            error = self.unexpected("at most database.name")
            error.hint = "a name in a catalog stands behind USING TABLE, and gets one of the lake's"
            raise error
        return TableName(first, check_name(second, self.place(word)), line, column)

    def catalog_name(self) -> CatalogName:
        """Take ``[[catalog.]schema.]table``, a table's name in a catalog of Spark's."""
        first = self.peek()
        parts = [self.identifier("a table's name in a catalog")]
        while self.accept_symbol("."):
            if len(parts) == _CATALOG_PARTS:
                raise self.unexpected("at most catalog.schema.table")
            parts.append(self.identifier("a name"))
        check_catalog_name([name for name, _ in parts], [self.place(word) for _, word in parts])
        place = self.source.place(first.start, parts[-1][1].end)
        return CatalogName(tuple(name for name, _ in parts), place)

    def database_name(self) -> str:
        """Take a database's name."""
        name, word = self.identifier("a database's name")
        return check_database_name(name, self.place(word))

    def column_name(self, what: str = "a column's name") -> str:
        """Take the name of a column or tag."""
        name, word = self.identifier(what)
        return check_column_name(name, self.place(word))

    def distinct_names(self, what: str) -> tuple[str, ...]:
        """Take ``(name, …)``, no name twice."""
        taken: set[str] = set()

        def one() -> str:
            word = self.peek()
            name = self.column_name(what)
            self.refuse_duplicate(name, taken, word)
            return name

        return tuple(self.list_of(one))

    def refuse_duplicate(self, name: str, taken: set[str], word: Word) -> None:
        """Add a column's name to those taken; DUPLICATE_COLUMN when it is there in any case (as in Spark)."""
        if name.lower() in taken:
            raise self.error("DUPLICATE_COLUMN", f"column {name} is given twice", word=word)
        taken.add(name.lower())

    def list_of(self, one: Callable[[], T]) -> list[T]:
        """Take ``( item, … )``."""
        self.expect_symbol("(")
        items = [one()]
        while self.accept_symbol(","):
            items.append(one())
        self.expect_symbol(")")
        return items

    def if_exists(self) -> bool:
        """Take ``IF EXISTS`` when it follows."""
        return self.accept("IF", "EXISTS")

    def if_not_exists(self) -> bool:
        """Take ``IF NOT EXISTS`` when it follows."""
        return self.accept("IF", "NOT", "EXISTS")

    # --- literals -----------------------------------------------------------------------------

    def string(self, what: str) -> str:
        """Take a quoted string."""
        if self.peek().kind is not Kind.STRING:
            raise self.unexpected(what)
        return self.take().text

    def instant(self, what: str) -> str:
        """Take a point in time, an ISO text in quotes or milliseconds since 1970 UTC; as written.

        A text without an offset is in the lake's time zone.
        """
        word = self.peek()
        if word.kind is Kind.NUMBER and word.text.isdigit() and len(word.text) <= _MAX_INSTANT:
            return self.take().text
        text = self.string(f"{what} in quotes")
        try:
            datetime.fromisoformat(text)
        except ValueError:
            hint = "such as '2025-01-01 00:00:00.000'"
            raise self.error("BAD_TIMESTAMP", f"{what} is no time", word=word, hint=hint) from None
        return text

    def refuse_unit(
        self, what: str, duration: Duration, units: str, word: Word, *, code: str = "BAD_DURATION"
    ) -> None:
        """Raise StatementError with the code where a duration is in a unit that a clause does not take."""
        if duration.unit not in units:
            hint = f"one of {', '.join(units)}"
            raise self.error(code, f"{what} takes no unit {duration.unit}", word=word, hint=hint)

    def duration(self, what: str) -> tuple[Duration, Word]:
        """Take a duration such as ``10s``; returns it with its word for later checks.

        Raises StatementError(BAD_DURATION) naming the clause, also for a sign and a blank before the unit.
        """
        word = self.peek()
        if word.is_symbol("-") or word.is_symbol("+"):
            raise self.error("BAD_DURATION", f"{what} takes a duration without a sign")
        if word.kind is not Kind.NUMBER:
            raise self.unexpected(f"a duration such as 10s in {what}")
        self.take()
        unit = self.peek()
        if unit.kind is Kind.WORD and len(unit.text) == 1:
            raise self.error(
                "BAD_DURATION", f"{what}: no blank between number and unit", hint=f"{word.text}{unit.text}"
            )
        try:
            return read_duration(word.text, self.place(word)), word
        except StatementError as error:
            raise StatementError(
                error.code, f"{what}: {error.message}", hint=error.hint, place=error.place
            ) from None

    def value(self) -> Value:
        """Take a literal: number, string, TRUE, FALSE, NULL, or ``NOW [± duration …]``."""
        word = self.peek()
        if word.kind is Kind.STRING:
            return self.take().text
        if word.kind is Kind.NUMBER or word.text in ("-", "+", "."):
            return self._number()
        if word.kind is Kind.WORD:
            constants: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}
            if word.text.upper() in constants:
                return constants[self.take().text.upper()]
            if self.accept("NOW"):
                return self._now()
        raise self.unexpected("a value", ("NULL", "TRUE", "FALSE", "NOW") if word.kind is Kind.WORD else ())

    def _number(self) -> int | float | Decimal:
        first = self.peek()
        sign = "-" if self.accept_symbol("-") else ""
        if not sign:
            self.accept_symbol("+")
        point = "." if self.accept_symbol(".") else ""
        word = self.peek()
        if word.kind is not Kind.NUMBER or (point and not word.text.isdigit()):
            raise self.unexpected("a number")
        text = f"{sign}{point}{word.text}"
        if len(text) > _MAX_NUMBER:
            raise self.error(
                "BAD_NUMBER", "the number is too long", hint=f"at most {_MAX_NUMBER} characters", word=first
            )
        try:
            number = _to_number(text)
        except (ValueError, ArithmeticError):
            raise self.error("BAD_NUMBER", f"{text} is no number", hint="strings stand in quotes") from None
        self.take()
        return number

    def _now(self) -> Now:
        if self.accept_symbol("("):
            self.expect_symbol(")")
        micros = 0
        while self.sees_symbol("+") or self.sees_symbol("-"):
            sign = 1 if self.take().text == "+" else -1
            duration, word = self.duration("NOW")
            if duration.unit in "ny":
                raise self.error("BAD_DURATION", "NOW takes no months or years", word=word)
            micros += sign * duration.micros
        return Now(micros)

    # --- slices -------------------------------------------------------------------------------

    def fragment(self, first: int, end: int) -> Fragment:
        """Return the text of the words from index ``first`` up to, not including, ``end``."""
        return self.source.fragment(self.words[first].start, self.words[end - 1].end)

    def rest(self, what: str) -> Fragment:
        """Take all remaining words as a fragment."""
        if self.done:
            raise self.unexpected(what)
        first, self.at = self.at, len(self.words)
        return self.fragment(first, self.at)

    def until(self, stops: Callable[[], bool], what: str) -> Fragment:
        """Take words up to one, outside of brackets, where ``stops`` holds; at least one word."""
        first, depth = self.at, 0
        while not self.done and not (depth == 0 and stops()):
            word = self.take()
            if word.kind is Kind.SYMBOL and word.text in "([{":
                depth += 1
            elif word.kind is Kind.SYMBOL and word.text in ")]}":
                depth -= 1
        if self.at == first:
            raise self.unexpected(what)
        return self.fragment(first, self.at)

    def in_brackets(self, what: str) -> Fragment:
        """Take ``( … )`` and return what is between as a fragment."""
        self.expect_symbol("(")
        inside = self.until(lambda: self.sees_symbol(")"), what)
        self.expect_symbol(")")
        return inside


def _to_number(text: str) -> int | float | Decimal:
    if "e" in text.lower():
        number = float(text)
        if not isfinite(number):
            raise ValueError(text)
        return number
    return Decimal(text) if "." in text else int(text)
