"""What a statement gives back: rows with named columns, or a message."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

SHOWN_ROWS = 100


class Result:
    """Rows of a statement. Times come as datetimes in UTC; ``message`` is for statements without rows.

    ``truncated``: there were more rows than were asked for.
    """

    def __init__(
        self,
        columns: Sequence[str] = (),
        rows: Sequence[tuple[Any, ...]] = (),
        *,
        arrow: pa.Table | None = None,
        message: str = "",
        truncated: bool = False,
    ) -> None:
        self.columns = tuple(columns) if arrow is None else tuple(arrow.column_names)
        self.message = message
        self.truncated = truncated
        self._rows = list(rows)
        self._arrow = arrow

    @property
    def arrow(self) -> pa.Table | None:
        """The rows as the Arrow table that they came as, None when they came otherwise."""
        return self._arrow

    def first(self, limit: int) -> Result:
        """Return the result with no more than its first ``limit`` rows."""
        if self._arrow is None:
            more = len(self._rows) > limit
            return Result(self.columns, self._rows[:limit], message=self.message, truncated=more)
        more = self._arrow.num_rows > limit
        return Result(arrow=self._arrow.slice(0, limit), message=self.message, truncated=more)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples, in the order of ``columns``."""
        if self._arrow is None:
            return list(self._rows)
        return list(zip(*(column.to_pylist() for column in self._arrow.columns), strict=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        if self._arrow is not None:
            return self._arrow
        values = [list(column) for column in zip(*self._rows, strict=True)] or [[] for _ in self.columns]
        return pa.table(dict(zip(self.columns, values, strict=True)))

    def show(self, limit: int = SHOWN_ROWS) -> None:
        """Print the first rows as a table on standard output, or the message."""
        from rich.console import Console
        from rich.table import Table

        if not self.columns:
            sys.stdout.write(f"{self.message}\n")
            return
        table = Table(*self.columns)
        rows = self.fetchall()
        for row in rows[:limit]:
            table.add_row(*("" if value is None else str(value) for value in row))
        console = Console(markup=False, highlight=False)
        console.print(table)
        if len(rows) > limit:
            console.print(f"{len(rows) - limit:,} more rows")
