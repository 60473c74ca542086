"""The sqlglot dialect of lakestream's statements: Spark's functions, TDengine's lexical rules.

Single and double quotes enclose strings and back-ticks names; ``5m`` is a duration; ``%%trows``,
``%%tbname`` and ``%%1`` are names. Spark's typed numbers (``1d``, ``30s``) do not exist here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from lakestream.language.common.aggregates import OWN_AGGREGATES
from lakestream.language.common.functions import CLOCK, OWN
from lakestream.language.common.query_clauses import TDengineParser

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.dialects.dialect import DialectType
    from sqlglot.parsers.spark import SparkParser

DURATION_FUNCTION = "_ls_duration"
"""The function call that a duration literal becomes: ``_ls_duration('5m')``."""
COUNTED = "counted"
"""Marks a duration for which a whole number stands, which counts milliseconds: as it is written."""

_SPARK_KEYWORDS: dict[str, TokenType] = {
    word: kind
    for word, kind in Spark.Tokenizer.KEYWORDS.items()
    # Jinja's block marks are no part of SQL, and nothing may swallow the rest of a statement unread.
    if "{" not in word and "}" not in word and kind not in (TokenType.COMMAND, TokenType.HINT)
}
_PLAIN_NUMBER = re.compile(r"[0-9]*+\.?[0-9]*+([eE][+-]?[0-9]++)?")
_TYPED_NUMBER = re.compile(
    r"(?P<whole>[0-9]++)(L|F|BD)|(?P<fraction>(?=[0-9]*+[.eE])[0-9]*+\.?[0-9]*+([eE][+-]?[0-9]++)?)(F|D|BD)"
)
"""A number that tells its type (Spark); ``5D``, ``5S`` and ``5Y`` are durations of a misspelt unit."""
_NUMBER_TYPES = {
    "L": TokenType.BIGINT,
    "F": TokenType.FLOAT,
    "D": TokenType.DOUBLE,
    "BD": TokenType.DECIMAL,
}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}


class _Lexical(tokens.Tokenizer):
    """What every tokenizer of lakestream agrees on, so that they cut strings and comments alike."""

    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'", '"']
    IDENTIFIERS: ClassVar[list[tuple[str, str] | str]] = ["`"]
    STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = ["--", ("/*", "*/")]
    COMMANDS: ClassVar[set[TokenType]] = set()
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}


class WordTokenizer(_Lexical):
    """Words without keywords, for the statements that lakestream reads itself."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {"||": TokenType.DPIPE}


def unquote(raw: str) -> str:
    """Return the text of a quoted literal: a doubled quote is one, a backslash escapes (TDengine)."""
    quote, body = raw[0], raw[1:-1]
    if "\\" not in body:
        return body.replace(quote * 2, quote)
    parts: list[str] = []
    at = 0
    while at < len(body):
        char = body[at]
        if char == "\\" and at + 1 < len(body):
            following = body[at + 1]
            # LIKE's own escapes keep their backslash (TDengine, MySQL).
            parts.append(f"\\{following}" if following in "%_" else _ESCAPES.get(following, following))
            at += 2
        else:
            parts.append(char)
            at += 2 if char == quote else 1
    return "".join(parts)


def _adjacent(left: Token, right: Token) -> bool:
    return left.end + 1 == right.start


def merge(found: list[Token], text: str) -> list[Token]:
    """Join ``5`` ``m`` to one NUMBER, and ``%`` ``%`` ``trows`` to one VAR; drop comments.

    Strings get their text by :func:`unquote`. Linear in the number of tokens.
    """
    merged: list[Token] = []
    at = 0
    while at < len(found):
        token = found[at]
        token.comments = []
        following = found[at + 1] if at + 1 < len(found) else None
        if token.token_type in (TokenType.STRING, TokenType.NATIONAL_STRING):
            token = _string(token, text)
        elif token.token_type is TokenType.MOD and following and following.token_type is TokenType.MOD:
            last = found[at + 2] if at + 2 < len(found) else None
            if last and _adjacent(token, following) and _adjacent(following, last) and last.text.isalnum():
                token, at = _joined(TokenType.VAR, token, last, text), at + 2
        elif token.token_type is TokenType.NUMBER:
            while following and _adjacent(token, following) and _continues_number(following):
                token, at = _joined(TokenType.NUMBER, token, following, text), at + 1
                following = found[at + 1] if at + 1 < len(found) else None
        merged.append(token)
        at += 1
    return merged


def _string(token: Token, text: str) -> Token:
    """Return a string with its text; ``N'…'``, which every sqlglot tokenizer knows, is one too."""
    string = _joined(TokenType.STRING, token, token, text)
    string.text = unquote(string.text.lstrip("nN"))
    return string


def _continues_number(token: Token) -> bool:
    return token.text[:1].isalnum() or token.text[:1] == "_"


def _joined(kind: TokenType, first: Token, last: Token, text: str) -> Token:
    return Token(kind, text[first.start : last.end + 1], first.line, first.col, first.start, last.end)


def _spelt_out(token: Token) -> list[Token]:
    """Return the tokens of ``_ls_duration('5m')`` for a duration literal, of ``5::BIGINT`` for ``5L``.

    Any other token is returned itself.
    """
    if token.token_type is not TokenType.NUMBER or _PLAIN_NUMBER.fullmatch(token.text):
        return [token]
    kinds: tuple[tuple[TokenType, str], ...]
    if typed := _TYPED_NUMBER.fullmatch(token.text):
        number = typed["whole"] or typed["fraction"]
        kind = token.text.removeprefix(number)
        # As sqlglot's own tokenizer of Spark's SQL has it.
        kinds = (TokenType.NUMBER, number), (TokenType.DCOLON, "::"), (_NUMBER_TYPES[kind], kind)
    else:
        kinds = (
            (TokenType.VAR, DURATION_FUNCTION),
            (TokenType.L_PAREN, "("),
            (TokenType.STRING, token.text),
            (TokenType.R_PAREN, ")"),
        )
    return [Token(kind, text, token.line, token.col, token.start, token.end) for kind, text in kinds]


NAME = "tdengine"
"""The key of a node's meta that holds the name of TDengine's function that it calls."""


def _named(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return what makes a call of a function of TDengine, which keeps its name and all its arguments."""

    def call(arguments: list[exp.Expr]) -> exp.Expr:
        node = exp.Anonymous(this=name, expressions=arguments)
        node.meta[NAME] = name
        return node

    return call


_CALLS: dict[type[exp.Expr], str] = {
    exp.StrPosition: "position",
    exp.Substring: "substring",
    exp.Trim: "trim",
}


def _marked(parse: Callable[..., exp.Expr]) -> Callable[..., exp.Expr]:
    """Return the reading of a call with words in it (TRIM, POSITION, CAST, …), as one of TDengine's."""

    def read(parser: SparkParser) -> exp.Expr:
        node = parse(parser)
        which = node.args.get("position") if isinstance(node, exp.Trim) else None
        one_sided = f"{which.lower()} trim" if which in ("LEADING", "TRAILING") else ""
        node.meta[NAME] = one_sided or _CALLS.get(type(node), "cast")
        return node

    return read


_WITH_WORDS = ("TRIM", "POSITION", "SUBSTRING", "SUBSTR", "CAST")


class _OwnParser(TDengineParser):
    """TDengine's functions by their names, and its operators for regular expressions."""

    FUNC_TOKENS: ClassVar[set[TokenType]] = TDengineParser.FUNC_TOKENS | {TokenType.DATABASE}

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = TDengineParser.FUNCTIONS | {
        name.upper(): _named(name) for name in OWN | OWN_AGGREGATES
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: _marked(parse) if name in _WITH_WORDS else parse
        for name, parse in TDengineParser.FUNCTION_PARSERS.items()
        if name in _WITH_WORDS or name.lower() not in OWN | OWN_AGGREGATES
    }

    def _parse_types(self, *options, **named):  # type: ignore[no-untyped-def] # noqa: ANN002, ANN003, ANN202
        # As in the definition of a table: elsewhere Spark's parser drops the length of a text.
        named["schema"] = True
        return super()._parse_types(*options, **named)

    def _parse_range(self, this=None, parse_is=False):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        this = super()._parse_range(this, parse_is)
        following = self._next
        while this is not None and following is not None and following.token_type is TokenType.STRING:
            if self._match_text_seq("MATCH"):
                this = exp.RegexpLike(this=this, expression=self._parse_bitwise())
            elif self._match_text_seq("NMATCH"):
                this = exp.Not(this=exp.RegexpLike(this=this, expression=self._parse_bitwise()))
            elif self._match_text_seq("CONTAINS"):
                this = _named("contains")([this, self._parse_bitwise() or exp.null()])
            else:
                break
            following = self._next
        return this


def mark_clock(tree: exp.Expr) -> None:
    """Mark the plain names that are the wall clock (TDengine), as calls of functions are."""
    for column in tree.find_all(exp.Column):
        name = column.name.lower()
        if name in CLOCK and not column.table and not column.this.quoted:
            column.meta[NAME] = name


class SparkFunctions(Spark):
    """Statements whose functions are Spark's; lexically as TDengine's."""

    IDENTIFIERS_CAN_START_WITH_DIGIT = False

    class Tokenizer(_Lexical):
        """Spark's keywords, and its bytes, over TDengine's lexical rules."""

        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("X'", "'"), ("x'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = _SPARK_KEYWORDS

    Parser = TDengineParser

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """Tokenize a query: durations spelt out as calls, placeholders as names, no comments."""
        return [part for token in merge(super().tokenize(sql, dialect), sql) for part in _spelt_out(token)]


class TDengine(SparkFunctions):
    """Statements of lakestream; its SQL is generated as Spark's."""

    Parser = _OwnParser
