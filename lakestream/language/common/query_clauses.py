"""Clauses that TDengine's queries have beside Spark's: slices, windows, FILL, SLIMIT, and versions of tables.

They become nodes of the tree like any other, so that every check of a query sees them:
:class:`Slices` under ``slices``, :class:`InnerWindow` under ``inner_window`` and :class:`SliceLimit` under
``slice_limit`` of a select. The durations stay expressions here;
:func:`lakestream.language.expressions.inner_windows` makes values of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from lakestream.language.common.interpolation import InterpolationParser
from lakestream.language.model import CALENDAR_UNITS

if TYPE_CHECKING:
    from sqlglot.tokens import Token

SLICES, INNER_WINDOW, SLICE_LIMIT = "slices", "inner_window", "slice_limit"
"""The arguments of a select that hold its clauses of TDengine."""

WINDOWS = ("SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW", "INTERVAL")
FOREIGN_CLAUSES = dict.fromkeys(("SURROUND", "WATERMARK", "WINDOW_OFFSET", "JLIMIT"), "") | {
    "CALENDAR": "it is a trigger: CREATE STREAM s CALENDAR(MONTH) FROM …",
}
"""Clauses that a query here does not have, TDengine's and of streams, and what to write instead."""

_OF_STATES = {"extend": "EXTEND", "zeroth": "ZEROTH_STATE"}
_BEFORE_A_BRACKET = (*WINDOWS, "FILL", "TRUE_FOR", "SLIDING", *_OF_STATES.values(), *FOREIGN_CLAUSES)
_BEFORE_A_NUMBER = ("SLIMIT", "SOFFSET", "JLIMIT")


class Slices(exp.Expression):
    """``PARTITION BY …`` of a query: its rows are evaluated slice by slice."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class SliceLimit(exp.Expression):
    """``SLIMIT n [SOFFSET m]``: how many slices are given."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "offset": False}


class InnerWindow(exp.Expression):
    """A window clause: its ``kind``, what stands in its brackets, and what follows them.

    ``this`` and ``until`` are the conditions of EVENT_WINDOW; ``least`` is the duration of TRUE_FOR,
    ``counts`` its word COUNT with ``rows``, and with ``either`` one of both is enough; ``extend`` and
    ``zeroth`` are what EXTEND and ZEROTH_STATE have; ``fill`` is the mode in capitals, with ``values``;
    ``clause`` is what all of it comes to.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "this": False,
        "until": False,
        "expressions": False,
        "sliding": False,
        "extend": False,
        "zeroth": False,
        "least": False,
        "counts": False,
        "rows": False,
        "either": False,
        "fill": False,
        "values": False,
        "clause": False,
    }


def said(node: exp.Expr) -> set[str]:
    """Return the names of the arguments with which a node says something."""
    return {name for name, value in node.args.items() if value not in (None, [], False)}


def group_keys(select: exp.Select) -> list[exp.Expr] | None:
    """Return what a select groups by; None where that is more than a list: ROLLUP and its like, and ALL."""
    group = select.args.get("group")
    if group is None:
        return []
    sets = any(isinstance(key, (exp.Rollup, exp.Cube, exp.GroupingSets)) for key in group.expressions)
    return None if sets or not said(group) <= {"expressions"} else list(group.expressions)


class ForeignClauseError(ParseError):
    """A clause of TDengine's queries that is not built, and where it stands in the text."""

    def __init__(self, clause: str, start: int, end: int) -> None:
        super().__init__(clause)
        self.clause, self.start, self.end = clause, start, end


class TDengineParser(InterpolationParser):
    """Spark's parser, and TDengine's clauses at the end of a query."""

    # ``unique(c)`` is a function of TDengine, no constraint.
    FUNC_TOKENS: ClassVar[set[TokenType]] = SparkParser.FUNC_TOKENS | {TokenType.UNIQUE}

    # ``FROM t INTERVAL(5s)`` and ``FROM t PARTITION BY c`` name no alias.
    TABLE_ALIAS_TOKENS: ClassVar[set[TokenType]] = SparkParser.TABLE_ALIAS_TOKENS - {
        TokenType.INTERVAL,
        TokenType.PARTITION,
        TokenType.PARTITION_BY,
    }
    VERSION_PHRASES = {**SparkParser.VERSION_PHRASES, ("FOR", "SYSTEM_VERSION"): "VERSION"}  # noqa: RUF012

    def _parse_table_alias(self, alias_tokens=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        at_version = self._curr and self._curr.token_type is TokenType.PARAMETER
        names_query = alias_tokens is self.ID_VAR_TOKENS  # behind WITH, where no clause can stand
        if at_version or (self._at_clause() and not names_query):
            return None
        return super()._parse_table_alias(alias_tokens)  # type: ignore[no-untyped-call]

    def _parse_version(self) -> exp.Version | None:
        """Read ``VERSION AS OF 3`` and its like, and Delta's ``table@v3`` and ``table@yyyyMMddHHmmssSSS``."""
        if not self._match(TokenType.PARAMETER):
            return super()._parse_version()
        said = self._curr
        self._advance()
        kind, text = ("VERSION", said.text[1:]) if said.text[:1] in "vV" else ("TIMESTAMP", said.text)
        at = exp.Literal.number(text).update_positions(said)
        return exp.Version(this=kind, expression=at, kind="AT")

    def _parse_query_modifiers(self, this):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select):
            for parse in (self._parse_inner_window, self._parse_interpolation, self._parse_slice_limit):
                if parse(this):
                    this = super()._parse_query_modifiers(this)
            self._refuse_foreign_clause()
        return this

    def _at_clause(self) -> bool:
        """Return whether a clause of TDengine follows, and no alias."""
        token, following = self._curr, self._next
        if not token or not following:
            return False
        word = token.text.upper()
        if word in _BEFORE_A_NUMBER and following.token_type is TokenType.NUMBER:
            return True
        if word == "CALENDAR" and not self._names_unit(2):
            return False
        if word == "EVENT_WINDOW" and following.text.upper() == "START":
            return True
        return word in _BEFORE_A_BRACKET and following.token_type is TokenType.L_PAREN

    def _names_unit(self, ahead: int) -> bool:
        """Return whether the token so far ahead is a unit of CALENDAR; else that is the alias of a table."""
        at = self._index + ahead
        return any(token.text.upper() in CALENDAR_UNITS for token in self._tokens[at : at + 1])

    def _parse_inner_window(self, select: exp.Select) -> bool:
        """Read ``[PARTITION BY …] [window] [FILL(…)]`` into the select."""
        groups = self._parse_csv(self._parse_disjunction) if self._match(TokenType.PARTITION_BY) else []
        if groups:
            select.set(SLICES, Slices(expressions=groups))
        if not self._at_clause() or self._curr.text.upper() not in WINDOWS:
            return bool(groups)
        kind: Token = self._curr
        self._advance()
        window = InnerWindow(kind=kind.text.upper()).update_positions(kind)
        if window.args["kind"] == "EVENT_WINDOW":
            self._parse_conditions(window)
        else:
            window.set("expressions", self._parse_wrapped_csv(self._parse_disjunction))
        if self._at_clause() and self._match_text_seq("SLIDING"):
            window.set("sliding", self._parse_wrapped(self._parse_unary))
        for name in ("extend", "zeroth"):
            if self._at_clause() and self._match_text_seq(_OF_STATES[name]):
                window.set(name, self._parse_wrapped_csv(self._parse_unary))
        if self._at_clause() and self._match_text_seq("TRUE_FOR"):
            self._match_l_paren()
            self._parse_least(window)
            self._match_r_paren()
        if self._at_clause() and self._match_text_seq("FILL"):
            self._match_l_paren()
            window.set("fill", self._curr.text.upper())
            self._advance()
            window.set("values", self._parse_csv(self._parse_unary) if self._match(TokenType.COMMA) else [])
            self._match_r_paren()
        select.set(INNER_WINDOW, window)
        return True

    def _parse_least(self, window: InnerWindow) -> None:
        """Read ``duration``, ``COUNT n`` or ``duration AND|OR COUNT n`` into the window."""
        if not self._match_text_seq("COUNT"):
            window.set("least", self._parse_unary())
            window.set("either", self._match(TokenType.OR))
            if not window.args["either"] and not self._match(TokenType.AND):
                return
            if not self._match_text_seq("COUNT"):
                self.raise_error("Expecting COUNT")
        window.set("counts", self._prev.text)
        window.set("rows", self._parse_number())

    def _parse_conditions(self, window: InnerWindow) -> None:
        """Read ``START WITH a END WITH b``, in brackets or not."""
        bracket = self._match(TokenType.L_PAREN)
        for name, word in (("this", "START"), ("until", "END")):
            if not self._match_text_seq(word, "WITH"):
                self.raise_error(f"Expecting {word} WITH")
            window.set(name, self._parse_disjunction())
        if bracket:
            self._match_r_paren()

    def _parse_slice_limit(self, select: exp.Select) -> bool:
        """Read ``SLIMIT [m,] n [SOFFSET m]``, where LIMIT may have gone before."""
        if not self._at_clause() or not self._match_text_seq("SLIMIT"):
            return False
        limit = SliceLimit(this=self._parse_number())
        if self._match(TokenType.COMMA):
            limit.set("offset", limit.this)
            limit.set("this", self._parse_number())
        elif self._match_text_seq("SOFFSET"):
            limit.set("offset", self._parse_number())
        select.set(SLICE_LIMIT, limit)
        return True

    def _refuse_foreign_clause(self) -> None:
        token, following = self._curr, self._next
        if self._at_clause():
            raise ForeignClauseError(token.text.upper(), token.start, token.end + 1)
        if token and following and following.text.upper() in ("ASOF", "WINDOW"):
            words = f"{token.text} {following.text} JOIN".upper()
            raise ForeignClauseError(words, token.start, following.end + 1)
