"""What ``TIMESTAMP BY`` makes an event time of: a column, a field of a struct, a text, an expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.engine.base.refused import refused
from lakestream.errors import LakestreamError, StatementError, did_you_mean
from lakestream.language.common.functions import Meaning
from lakestream.language.common.source import place_of
from lakestream.language.common.time_formats import ISO8601, read_iso_time, read_time
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, place_in
from lakestream.storage.columns.times import Part, ReadTime, check_kind
from lakestream.storage.columns.types import fields_within, types_of
from lakestream.storage.names.table_info import refuse_other_time, with_read_time, with_time_column
from lakestream.storage.rows.reading import rows_of_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakestream.engine.reading.apart import Apart
    from lakestream.language.model import Fragment, TimeBy
    from lakestream.storage.delta import Tables
    from lakestream.storage.names.table_info import External, TableInfo

EXPRESSION_NAME = "ts"
"""What a time is called that an expression gives, unless AS says otherwise."""


@dataclass(frozen=True)
class EventTimes:
    """Gives tables of others their event time; dates, and times without a zone, are in ``zone``.

    ``spark`` is asked for expressions alone, ``apart``.
    """

    handles: Tables
    zone: str
    spark: Callable[[], SparkSession]
    apart: Apart

    def attached(self, found: External, by: TimeBy | None) -> TableInfo:
        """Return a table of others under its name, with the event time that a statement says.

        Where none is said, it is the one that is kept, or else the first timestamp. Raises StatementError
        with the place: COLUMN_NOT_FOUND, TIME_COLUMN_TYPE, DUPLICATE_COLUMN, EXPRESSION_INVALID, what an
        expression's functions raise, and TABLE_EXISTS where the name is kept with another time.
        """
        if by is None:
            return found.known or with_time_column(found.said, found.said.time_column, self.zone, None)
        try:
            said = self._of(found.said, by)
            if found.known is not None:
                refuse_other_time(found.known, said)
        except LakestreamError as error:
            raise error.at(by.place) from None
        return found.known or said

    def _of(self, info: TableInfo, by: TimeBy) -> TableInfo:
        if by.expression is not None:
            return with_read_time(info, self._expression(info, by, by.expression))
        if by.format is None and len(by.path) == 1 and by.name in (None, *by.path):
            return with_time_column(info, by.path[0], self.zone, by.unit)
        part = Part(by.path, _type_at(info, by.path))
        if by.format is not None:
            return with_read_time(info, self._text(by, part, by.format))
        check_kind(part.type, by.unit, f"the {_what(by.path)}")
        return with_read_time(info, self._read_time(by, part.type, (part,)))

    def _read_time(self, by: TimeBy, kind: str, parts: tuple[Part, ...], sql: str = "") -> ReadTime:
        name = by.name or (by.path[-1] if by.path else EXPRESSION_NAME)
        return ReadTime(name, kind, self.zone, by.unit, parts, sql, by.written)

    def _text(self, by: TimeBy, part: Part, form: str) -> ReadTime:
        """Return the time that texts name in a format."""
        if part.type != "string":
            raise StatementError(
                "TIME_COLUMN_TYPE",
                f"the {_what(by.path)} of type {part.type} is no text",
                hint="FORMAT says how a STRING is read",
            )
        column, *fields = (exp.to_identifier(name, quoted=True) for name in by.path)
        text: exp.Expr = exp.Column(this=column)
        for field in fields:
            text = exp.Dot(this=text, expression=field)
        read = read_iso_time() if form == ISO8601 else read_time(form)
        sql = Meaning(self.zone).of(read, text).sql("spark")
        return self._read_time(by, "timestamp", (part,), sql)

    def _expression(self, info: TableInfo, by: TimeBy, fragment: Fragment) -> ReadTime:
        """Return the time that an expression gives, by what Spark says of it over no rows."""
        tree = parse_expression(fragment)
        columns = list(tree.find_all(exp.Column))
        if not columns:
            raise StatementError(
                "TIME_COLUMN_TYPE",
                "TIMESTAMP BY names no column: every row would have one time",
                place=place_of(fragment),
            )
        parts = tuple(dict.fromkeys(_named(info, fragment, column) for column in columns))
        sql = in_spark(tree, Meaning(self.zone), fragment).sql("spark")
        about = ("time", info.path, info.columns, sql)
        kind = self.apart.ask(about, lambda: self._type(info, fragment, parts, sql))
        try:
            check_kind(kind, by.unit, "the expression")
        except StatementError as error:
            raise error.at(place_of(fragment)) from None
        return self._read_time(by, kind, parts, sql)

    def _type(self, info: TableInfo, fragment: Fragment, parts: tuple[Part, ...], sql: str) -> str:
        from pyspark.errors import PySparkException

        stored = list(dict.fromkeys(part.path[0] for part in parts))
        try:
            rows = rows_of_files(self.spark(), self.handles.latest(info.path), [], stored)
            # A condition holds what is over one row alone: no rows are made of it, and none summed up.
            rows.where(f"({sql}) IS NOT NULL").schema  # noqa: B018
            return types_of(rows.selectExpr(f"{sql} AS made"))["made"]
        except PySparkException as error:
            names = [column.name for column in info.columns]
            raise refused("EXPRESSION_INVALID", "TIMESTAMP BY", fragment, error, columns=names) from None


def _what(path: tuple[str, ...]) -> str:
    return f"column {path[0]}" if len(path) == 1 else f"field {'.'.join(path)}"


def _type_at(info: TableInfo, path: tuple[str, ...]) -> str:
    """Return the type of a column or a field; COLUMN_NOT_FOUND names what is like it."""
    kind = info.column(path[0]).type
    for depth in range(1, len(path)):
        within = info.type_at(path[: depth + 1])
        if within is None:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"the {_what(path[:depth])} of type {kind} has no field {path[depth]}",
                hint=did_you_mean(path[depth], fields_within(kind)),
            )
        kind = within
    return kind


def _named(info: TableInfo, fragment: Fragment, column: exp.Column) -> Part:
    """Return what a column of an expression means, which goes by no case, and name it so in the tree.

    What it names beyond a struct's fields is left to Spark.
    """
    names = [part.name for part in column.parts]
    known = {one.name.lower(): one.name for one in info.columns}
    try:
        path: tuple[str, ...] = (info.column(known.get(names[0].lower(), names[0])).name,)
    except LakestreamError as error:
        raise error.at(place_in(fragment, column)) from None
    for name in names[1:]:
        fields = {field.lower(): field for field in fields_within(info.type_at(path) or "")}
        if name.lower() not in fields:
            break
        path = (*path, fields[name.lower()])
    for part, name in zip(column.parts, (*path, *names[len(path) :]), strict=True):
        part.set("this", name)
        part.set("quoted", True)
    return Part(path, info.type_at(path) or "")
