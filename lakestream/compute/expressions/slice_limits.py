"""LIMIT of each slice of a select, and SLIMIT of the slices (TDengine)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.levels import raw
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.compute.expressions.levels import Levels
    from lakestream.errors import Place

ROW, SLICE = "_ls_row", "_ls_slice"
"""Columns of a row's number in its slice, and of its slice's."""


@dataclass(frozen=True)
class SliceLimits:
    """The limits of a select over slices; ``limit`` is its SLIMIT."""

    levels: Levels
    select: exp.Select
    limit: exp.Expr | None
    place: Callable[[exp.Expr], Place]

    @property
    def hidden(self) -> list[str]:
        """The columns that rows are numbered by."""
        return [ROW, *([SLICE] if self.limit else [])]

    def by_results(self, order: Sequence[exp.Ordered]) -> list[exp.Ordered]:
        """Return an ORDER BY in which results are named by what they are, not by alias or position."""
        selects = self.select.selects
        named = {item.alias_or_name.lower(): item.unalias() for item in selects}

        def meant(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(selects):
                return selects[int(node.name) - 1].unalias().copy()
            if isinstance(node, exp.Column) and not node.table:
                return named.get(node.name.lower(), node).copy()
            return node.copy()

        found = []
        for item in order:
            copy = item.copy()
            copy.set("this", meant(item.this))
            found.append(copy)
        return found

    def kept(self, below: exp.Select, keys: Sequence[exp.Expr], order: Sequence[exp.Expr]) -> exp.Select:
        """Return the rows that LIMIT leaves of each slice, and SLIMIT of all slices, by ``keys``.

        The select itself limits no more. Raises StatementError SYNTAX for a limit that is no whole number.
        """
        row = self.levels.over("row_number()", keys=keys, order=order)
        numbers = {ROW: row}
        if self.limit is not None:
            numbers[SLICE] = self.levels.over("dense_rank()", keys=[], order=keys)
        numbered = self.levels.level(below, **numbers)
        left = self.levels.level(numbered)
        for name, first, most in self._ranges():
            if first:
                left.where(raw(f"{name} > {first}"), copy=False)
            if most is not None:
                left.where(raw(f"{name} <= {first + most}"), copy=False)
        for name in ("limit", "offset"):
            self.select.set(name, None)
        return left

    def _ranges(self) -> Iterable[tuple[str, int, int | None]]:
        limit, offset = self.select.args.get("limit"), self.select.args.get("offset")
        yield (
            ROW,
            self._whole(offset.expression) if offset else 0,
            self._whole(limit.expression) if limit else None,
        )
        if self.limit is not None:
            offset = self.limit.args.get("offset")
            yield SLICE, self._whole(offset) if offset else 0, self._whole(self.limit.this)

    def _whole(self, node: exp.Expr) -> int:
        if isinstance(node, exp.Literal) and node.name.isdigit() and len(node.name) <= 18:
            return int(node.name)
        raise StatementError("SYNTAX", "a limit of slices is a whole number", place=self.place(node))
