"""From text to words: the tokens of the statements that lakestream reads itself."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from lakestream.errors import StatementError
from lakestream.language.common.dialect import WordTokenizer, merge
from lakestream.language.common.source import BYTE_ORDER_MARK, Source

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(Enum):
    """What a token is, as far as statements care."""

    WORD = "word"
    NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    PLACEHOLDER = "placeholder"
    SYMBOL = "symbol"
    END = "end of the statement"


class Word(NamedTuple):
    """A token: its text (unquoted for strings and names), and offsets ``[start, end)``."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        """Tell whether this is the unquoted word, without regard to case."""
        return self.kind is Kind.WORD and self.text.upper() == word

    def is_symbol(self, symbol: str) -> bool:
        """Tell whether this is the punctuation mark."""
        return self.kind is Kind.SYMBOL and self.text == symbol


_KINDS = {
    TokenType.STRING: Kind.STRING,
    TokenType.IDENTIFIER: Kind.NAME,
    TokenType.NUMBER: Kind.NUMBER,
}
_TOKENIZER = WordTokenizer()
_LONGEST_NUMBER = 1_000
_COMMENT_MARK = re.compile(r"/\*|\*/")
_OPENING = re.compile(r"--|/\*|['\"`]")
_LINE_BREAK = re.compile(r"[\r\n]")


def read_words(source: Source, within_words: re.Pattern[str] | None = None) -> list[Word]:
    """Cut a text into words, comments and blanks left out.

    ``within_words`` matches a further character that a word may hold.

    Raises StatementError with the place: UNCLOSED for a quote, back-tick or comment without its end,
    BAD_CHARACTER for what may stand only within quotes (else anything beyond ASCII, other digits too),
    BAD_NUMBER for one of very many digits.
    """
    source.refuse_characters()
    text = source.text
    if text.startswith(BYTE_ORDER_MARK):
        text = " " + text[1:]
    try:
        found = merge(_TOKENIZER.tokenize(text), text)
    except TokenError as error:
        raise _unclosed(source, text) from error
    words = [Word(_kind(t.token_type, t.text), t.text, t.start, t.end + 1) for t in found]
    _check_between(source, text, words, within_words)
    return words


def split_words(words: list[Word]) -> list[list[Word]]:
    """Cut at semicolons; empty statements vanish."""
    statements: list[list[Word]] = [[]]
    for word in words:
        if word.is_symbol(";"):
            statements.append([])
        else:
            statements[-1].append(word)
    return [statement for statement in statements if statement]


def _kind(token_type: TokenType, text: str) -> Kind:
    kind = _KINDS.get(token_type)
    if kind is not None:
        return kind
    if text.startswith("%%"):
        return Kind.PLACEHOLDER
    return Kind.WORD if text[0].isalpha() or text[0] == "_" or not text.isascii() else Kind.SYMBOL


def _check_between(
    source: Source, text: str, words: list[Word], within_words: re.Pattern[str] | None
) -> None:
    """Check the blanks and comments between words, and the words themselves, for stray characters."""
    at = 0
    for word in words:
        if word.start > at:
            _check_gap(source, text, at, word.start)
        plain = within_words.sub("_", word.text) if within_words else word.text
        if word.kind not in (Kind.STRING, Kind.NAME) and not plain.isascii():
            raise _stray(source, text, word.start + next(i for i, c in enumerate(plain) if not c.isascii()))
        if word.kind is Kind.NUMBER and len(word.text) > _LONGEST_NUMBER:
            place = source.place(word.start, word.end)
            hint = f"at most {_LONGEST_NUMBER:,} characters"
            raise StatementError("BAD_NUMBER", "the number is too long", hint=hint, place=place)
        if word.kind is Kind.WORD and not plain.isidentifier():
            raise StatementError(
                "BAD_CHARACTER",
                f"{word.text} is no name",
                hint="letters, digits and _, or anything within back-ticks",
                place=source.place(word.start, word.end),
            )
        at = word.end
    _check_gap(source, text, at, len(text))


def _check_gap(source: Source, text: str, start: int, end: int) -> None:
    at = start
    while at < end:
        if text.startswith("--", at):
            at = _after_line(text, at)
        elif text.startswith("/*", at):
            at = _after_comment(source, text, at)
        elif text[at].isascii():
            at += 1
        else:
            raise _stray(source, text, at)


def _after_comment(source: Source, text: str, start: int) -> int:
    """Return the offset behind a comment, which may hold comments itself (as Spark's may)."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    raise StatementError(
        "UNCLOSED",
        "the comment has no end",
        hint="close it with */",
        place=source.place(start, start + 2),
    )


def _after_line(text: str, start: int) -> int:
    """Return the offset of the line break that ends a ``--`` comment, or of the text's end."""
    found = _LINE_BREAK.search(text, start)
    return found.start() if found else len(text)


def _stray(source: Source, text: str, at: int) -> StatementError:
    return StatementError(
        "BAD_CHARACTER",
        f"the character U+{ord(text[at]):04X} may stand only within quotes or a comment",
        hint="names beyond ASCII go into back-ticks; numbers are written with 0 to 9",
        place=source.place(at, at + 1),
    )


def _unclosed(source: Source, text: str) -> StatementError:
    """Return the error for the quote without an end: the tokenizer's scan, done again for its place."""
    for mark, start, end in enclosed(source, text):
        if end < 0:
            return StatementError(
                "UNCLOSED",
                f"the {'back-tick' if mark == '`' else 'quote'} has no end",
                hint=f"close it with {mark}",
                place=source.place(start, start + 1),
            )
    return StatementError("SYNTAX", "the statement cannot be read", place=source.place(0, 1))


def enclosed(source: Source, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield what stands in quotes, back-ticks and comments of a text: its mark, and offsets [start, end).

    The end is -1 for the last one where it has none. Raises StatementError UNCLOSED for a comment.
    """
    at = 0
    while at >= 0 and (found := _OPENING.search(text, at)):
        mark, start = found.group(), found.start()
        if mark == "--":
            at = _after_line(text, start)
        else:
            at = _after_comment(source, text, start) if mark == "/*" else _after_quote(text, start)
        yield mark, start, at


def _after_quote(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\" and quote != "`":
            at += 2
        elif text[at] != quote:
            at += 1
        elif text.startswith(quote, at + 1):
            at += 2
        else:
            return at + 1
    return -1
