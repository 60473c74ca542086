"""A cursor over a statement's words: the small steps that every statement's reader is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lakestream.errors import NotSupportedError, StatementError, did_you_mean, nearest
from lakestream.language.reading.words import Kind, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakestream.errors import Place
    from lakestream.language.common.source import Source
    from lakestream.language.model import Fragment

_MAX_SHOWN = 60
T = TypeVar("T")


class Reader:
    """Reads the words of one statement from left to right; all errors carry their place."""

    def __init__(self, source: Source, words: list[Word], dialect: str = "tdengine") -> None:
        self.source = source
        self.words = words
        self.dialect = dialect
        self.at = 0
        self._asked: dict[int, set[str]] = {}
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
        for ahead, word in enumerate(words):
            self._asked.setdefault(self.at + ahead, set()).add(word)
            if not self.peek(ahead).is_word(word):
                return False
        return True

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
        """Return the SYNTAX error for the next word, where something else was wanted.

        A word that is nearly one of those that were looked for is taken for that one, misspelt.
        """
        furthest = max(self._asked, default=self.at)
        if furthest > self.at and (near := self._nearest(furthest)):
            self.at, wanted, known = furthest, " or ".join(near), near
        word = self.peek()
        found = word.text if len(word.text) <= _MAX_SHOWN else f"{word.text[:_MAX_SHOWN]}…"
        shown = f"{found!r}" if word.kind is not Kind.END else "the end of the statement"
        known = self._nearest(self.at, known) or known
        hint = did_you_mean(word.text, known) if word.kind is Kind.WORD else ""
        return self.error("SYNTAX", f"expected {wanted}, found {shown}", hint=hint)

    def misspelt(self, first: int) -> StatementError | None:
        """Return the SYNTAX error for a word from index ``first`` on that is nearly one looked for there."""
        for at in range(first, self.at):
            if near := self._nearest(at):
                self.at = at
                return self.unexpected(" or ".join(near), near)
        return None

    def _nearest(self, at: int, known: Iterable[str] = ()) -> list[str]:
        """Return what the word at a place may stand for, of those that were looked for there or are known."""
        word = self.words[at] if at < len(self.words) else self._end
        asked = self._asked.get(at, set())
        if word.kind is not Kind.WORD or word.text.upper() in asked:
            return []
        return nearest(word.text, {*asked, *known})

    def unsupported(self, what: str, *, word: Word | None = None, hint: str = "") -> NotSupportedError:
        """Return the error for something that is known by name and not built."""
        return NotSupportedError(what, hint=hint, place=self.place(word))

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
