"""The sqlglot dialect of lakestream's statements: Spark's functions, TDengine's lexical rules.

Single and double quotes enclose strings and back-ticks names; ``5m`` is a duration; ``%%trows``,
``%%tbname`` and ``%%1`` are names. Spark's typed numbers (``1d``, ``30s``) do not exist here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp, tokens
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from lakestream.language.aggregates import OWN_AGGREGATES
from lakestream.language.functions import CLOCK, OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.dialects.dialect import DialectType

DURATION_FUNCTION = "_ls_duration"
"""The function call that a duration literal becomes: ``_ls_duration('5m')``."""

_SPARK_KEYWORDS: dict[str, TokenType] = {
    word: kind
    for word, kind in Spark.Tokenizer.KEYWORDS.items()
    # Jinja's block marks are no part of SQL, and nothing may swallow the rest of a statement unread.
    if "{" not in word and "}" not in word and kind not in (TokenType.COMMAND, TokenType.HINT)
}
_PLAIN_NUMBER = re.compile(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?")
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
    """Return the tokens of ``_ls_duration('5m')`` for a duration literal, the token itself otherwise."""
    if token.token_type is not TokenType.NUMBER or _PLAIN_NUMBER.fullmatch(token.text):
        return [token]
    kinds = (
        (TokenType.VAR, DURATION_FUNCTION),
        (TokenType.L_PAREN, "("),
        (TokenType.STRING, token.text),
        (TokenType.R_PAREN, ")"),
    )
    return [Token(kind, text, token.line, token.col, token.start, token.end) for kind, text in kinds]


_WINDOW_HINT = "INTERVAL is; other windows are triggers of a stream, and a query can read its output"
FOREIGN_CLAUSES = dict.fromkeys(("FILL", "RANGE", "EVERY", "SLIMIT", "SOFFSET"), "") | dict.fromkeys(
    ("SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW"), _WINDOW_HINT
)
"""Clauses of TDengine's queries that a query here does not have, and what to write instead."""


class ForeignClauseError(ParseError):
    """A clause of TDengine's queries that is not built, and where it stands in the text."""

    def __init__(self, clause: str, start: int, end: int) -> None:
        super().__init__(clause)
        self.clause, self.start, self.end = clause, start, end


class TDengineParser(SparkParser):
    """Spark's parser, and TDengine's window at the end of a query."""

    # ``unique(c)`` is a function of TDengine, no constraint.
    FUNC_TOKENS: ClassVar[set[TokenType]] = SparkParser.FUNC_TOKENS | {TokenType.UNIQUE}

    # ``FROM t INTERVAL(5s)`` and ``FROM t PARTITION BY c`` name no alias.
    TABLE_ALIAS_TOKENS: ClassVar[set[TokenType]] = SparkParser.TABLE_ALIAS_TOKENS - {
        TokenType.INTERVAL,
        TokenType.PARTITION,
        TokenType.PARTITION_BY,
    }

    def _parse_table_alias(self, alias_tokens=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        self._refuse_foreign_clause()
        return super()._parse_table_alias(alias_tokens)

    def _parse_query_modifiers(self, this):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select):
            if self._parse_inner_window(this):
                this = super()._parse_query_modifiers(this)
            self._refuse_foreign_clause()
        return this

    def _parse_inner_window(self, select: exp.Select) -> bool:
        """Read ``[PARTITION BY …] [INTERVAL(length[, offset]) [SLIDING(step)]]`` into the select's meta.

        The durations stay expressions here; :mod:`lakestream.language.expressions` makes them values.
        """
        groups = self._parse_csv(self._parse_disjunction) if self._match(TokenType.PARTITION_BY) else []
        if groups:
            select.meta["inner_partition"] = groups
        if not self._match_pair(TokenType.INTERVAL, TokenType.L_PAREN):
            return bool(groups)
        window = self._parse_csv(self._parse_unary)
        self._match_r_paren()
        step = self._parse_wrapped(self._parse_unary) if self._match_text_seq("SLIDING") else None
        select.meta["inner_window"] = (window, step)
        return True

    def _refuse_foreign_clause(self) -> None:
        token, following = self._curr, self._next
        if not token or not following or token.text.upper() not in FOREIGN_CLAUSES:
            return
        is_number = following.token_type is TokenType.NUMBER
        if following.token_type is TokenType.L_PAREN or is_number or following.text.upper() == "START":
            raise ForeignClauseError(token.text.upper(), token.start, token.end + 1)


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
        """Spark's keywords over TDengine's lexical rules."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = _SPARK_KEYWORDS

    Parser = TDengineParser

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """Tokenize a query: durations spelt out as calls, placeholders as names, no comments."""
        return [part for token in merge(super().tokenize(sql, dialect), sql) for part in _spelt_out(token)]


class TDengine(SparkFunctions):
    """Statements of lakestream; its SQL is generated as Spark's."""

    Parser = _OwnParser
