"""What the small session says where it leaves an answer to Spark."""

from __future__ import annotations


class NotExactError(Exception):
    """DuckDB does not, or may not, answer as Spark does; ``always``: whatever the rows are."""

    def __init__(self, why: str, *, always: bool = True) -> None:
        super().__init__(why)
        self.always = always


class NotThereError(NotExactError, AttributeError):
    """Spark's session or frame has something that the small one has not."""
