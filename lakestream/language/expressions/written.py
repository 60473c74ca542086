"""What a statement says, held against the Spark SQL that is made of it: no word of it may be missing.

sqlglot reads what many databases have, and writes what Spark has of it: arguments, methods and options that
Spark has not are left out, some with a warning. Here each is an error of the statement, at its place.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.tokens import Token, TokenType

from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.dialect import SparkFunctions
from lakestream.language.common.interpolation import INTERPOLATION
from lakestream.language.common.query_clauses import INNER_WINDOW, SLICE_LIMIT, SLICES
from lakestream.language.common.source import Source, place_of
from lakestream.language.common.spark_parser import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.language.expressions.inner_windows import PlaceOf
    from lakestream.language.model import Fragment

# It warns of what is an error here, at its place in the statement.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_DIALECT = SparkFunctions()
_SAID = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
_TEXTS = (TokenType.STRING, TokenType.NUMBER)
_KEYWORDS = frozenset(
    {"start", "slimit", "soffset", "system_time", "system_version", "symmetric"}
    | {"nulls", "first", "last", "rows", "row", "only", "next"}
)
"""Words of clauses that are read whole, and are written otherwise or not where they are the default."""

_PHRASES = frozenset(
    {("between", "asymmetric"), ("(", "leading")}
    | {(operator, "'") for operator in ("match", "nmatch", "contains")}
    | {(integer, "unsigned") for integer in ("tinyint", "smallint", "int", "integer", "bigint")}
)
"""Words that are keywords in front of, or behind, such a token; elsewhere they are names."""

_MARKS = re.compile(r"[\\'\"`]")


def refuse_unwritten(f: Fragment, tree: exp.Expr, place: PlaceOf) -> None:
    """Raise NotSupportedError for the first word of a fragment that the Spark SQL of its tree lacks.

    Names, numbers and texts count, and words that are no keywords; names of functions may change. So does
    what sqlglot calls unsupported. StatementError SYNTAX where no SQL can be made of the tree.
    """
    tokens = [*_tokens(_spark_sql(f, tree, place)), *_own_clauses(tree)]
    texts = Counter(_plain(token.text) for token in tokens if token.token_type is TokenType.STRING)
    words = Counter(_plain(token.text) for token in tokens if token.token_type is not TokenType.STRING)
    words.update(_plain(one.meta[WRITTEN]) for one in tree.find_all(exp.Identifier) if WRITTEN in one.meta)
    _refuse_hints(f)
    stand_for_others = {name.lower() for name, _ in f.stands_for}
    for token in _said(_tokens(f.sql)):
        word = _plain(token.text)
        if word in stand_for_others or word in _KEYWORDS:
            continue
        # A name of which a text was made is another thing; a text may become a name, as in a struct.
        found = texts if texts[word] and token.token_type in _TEXTS else words
        if not found[word]:
            where = Source.of_fragment(f).place(token.start, token.end + 1)
            raise NotSupportedError(f"{f.sql[token.start : token.end + 1]} in this place", place=where)
        found[word] -= 1


def _refuse_hints(f: Fragment) -> None:
    """Refuse a comment that is a hint: ``SELECT /*+ … */``."""
    tokens = _tokens(f.sql)
    for token, behind in pairwise(tokens):
        between = f.sql[token.end + 1 : behind.start]
        if token.token_type is TokenType.SELECT and "/*+" in between:
            start = token.end + 1 + between.index("/*+")
            where = Source.of_fragment(f).place(start, start + len("/*+"))
            raise NotSupportedError("a hint", hint="leave out /*+ … */", place=where)


def _tokens(sql: str) -> list[Token]:
    """Return the tokens of a text; of ``INTERVAL '1 hour'``, which may become ``'1' HOUR``, word by word."""
    found = _DIALECT.tokenize(sql)
    return [
        word
        for before, token in zip([None, *found], found, strict=False)
        for word in (_words(token) if _is_length(before, token) else [token])
    ]


def _is_length(before: Token | None, token: Token) -> bool:
    is_text = token.token_type is TokenType.STRING
    return is_text and before is not None and before.token_type is TokenType.INTERVAL


def _words(token: Token) -> list[Token]:
    """Return the words of a text as tokens at its place: units are no texts."""
    return [
        Token(
            TokenType.VAR if word.isalpha() else token.token_type,
            word,
            token.line,
            token.col,
            token.start,
            token.end,
        )
        for word in token.text.split()
    ]


def _said(tokens: list[Token]) -> Iterator[Token]:
    """Yield the tokens that mean something by their text: no calls, phrases, or versions behind ``@``."""
    for before, token, behind in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        is_call = behind is not None and behind.token_type is TokenType.L_PAREN
        is_version = before is not None and before.token_type is TokenType.PARAMETER
        pairs = {(_word(before), _word(token)), (_word(token), _word(behind))}
        if token.token_type in _SAID and not (is_call or is_version or pairs & _PHRASES):
            yield token


def _word(token: Token | None) -> str:
    """Return a token as it stands in a phrase: of a text only that it is one."""
    if token is None:
        return ""
    return "'" if token.token_type is TokenType.STRING else token.text.lower()


def _plain(text: str) -> str:
    """Return a word as it is compared: without quotes and a JSON path's root, and numbers by their value."""
    plain = _MARKS.sub("", text).lower().removeprefix("$.")
    try:
        return str(float(plain))
    except ValueError:
        return plain


def _own_clauses(tree: exp.Expr) -> Iterator[Token]:
    """Yield the words of TDengine's clauses, which Spark's generator passes by."""
    for select in tree.find_all(exp.Select):
        for name in (SLICES, INNER_WINDOW, INTERPOLATION, SLICE_LIMIT):
            clause = select.args.get(name)
            if clause is None:
                continue
            for value in clause.args.values():
                yield from _tokens(value) if isinstance(value, str) else ()
            for node in clause.iter_expressions():
                yield from _tokens(node.sql("spark"))


def _spark_sql(f: Fragment, tree: exp.Expr, place: PlaceOf) -> str:
    try:
        return Spark().generator(unsupported_level=ErrorLevel.RAISE).generate(tree)
    except UnsupportedError:
        node = next(filter(_is_unsupported, reversed(list(tree.walk()))), tree)
        raise NotSupportedError(f"{_name(f, node)} of this form", place=place(node)) from None
    except (ValueError, AttributeError, TypeError, IndexError, KeyError, AssertionError) as error:
        # sqlglot's generator meets some trees that its parser makes with a builtin error.
        raise StatementError("SYNTAX", "the text is not understood", place=place_of(f)) from error


def _name(f: Fragment, node: exp.Expr) -> str:
    """Return what a node is called in a fragment."""
    if not isinstance(node, exp.Func):
        return node.key.upper()
    names = [name.lower() for name in node.sql_names()]
    return f"{next((name for name in names if name in f.sql.lower()), names[0])}()"


def _is_unsupported(node: exp.Expr) -> bool:
    try:
        Spark().generator(unsupported_level=ErrorLevel.RAISE).generate(node)
    except UnsupportedError:
        return True
    return False
