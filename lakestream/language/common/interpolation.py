"""The clause of INTERP in a query: ``RANGE(from, to) EVERY(step) FILL(mode)`` (TDengine)."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType

from lakestream.language.common.spark_parser import ExactSparkParser

INTERPOLATION = "interpolation"
"""The argument of a select that holds its clause of INTERP."""

FILLS = ("NONE", "NULL", "VALUE", "PREV", "NEXT", "LINEAR", "NEAR")


class Interpolation(exp.Expression):
    """``expressions`` are those of RANGE; ``fill`` is the mode in capitals, with ``values``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "expressions": True,
        "every": False,
        "fill": False,
        "values": False,
    }


class InterpolationParser(ExactSparkParser):
    """Spark's parser, and the clause of INTERP behind WHERE and PARTITION BY."""

    def _parse_table_alias(self, alias_tokens=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return None if self._at_interpolation() else super()._parse_table_alias(alias_tokens)

    def _at_interpolation(self) -> bool:
        token, following = self._curr, self._next
        opens = following is not None and following.token_type is TokenType.L_PAREN
        return opens and token is not None and token.text.upper() in ("RANGE", "EVERY")

    def _parse_interpolation(self, select: exp.Select) -> bool:
        """Read ``[RANGE(…)] [EVERY(…)] [FILL(…)]`` into the select."""
        if not self._at_interpolation():
            return False
        clause = Interpolation(expressions=[]).update_positions(self._curr)
        if self._match_text_seq("RANGE"):
            clause.set("expressions", self._parse_wrapped_csv(self._parse_disjunction))
        if self._match_text_seq("EVERY"):
            clause.set("every", self._parse_wrapped(self._parse_unary))
        if self._match_text_seq("FILL"):
            self._match_l_paren()
            clause.set("fill", self._curr.text.upper() if self._curr else "")
            self._advance()
            clause.set("values", self._parse_csv(self._parse_unary) if self._match(TokenType.COMMA) else [])
            self._match_r_paren()
        select.set(INTERPOLATION, clause)
        return True
