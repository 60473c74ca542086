"""Times and days, their parts and what is added to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.dialect.durations import is_shift, length_us
from lakestream.storage.small.dialect.known import FIELDS, PARTS, macro
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.kinds import DAY, checked, kind_of

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites


def _instant(value: exp.Expr) -> exp.Expr:
    return checked(value, "ls_instant")


def _naive(value: exp.Expr) -> exp.Expr:
    return macro("ls_naive", checked(value, "ls_time"))


def _micros(node: exp.Expr) -> exp.Expr:
    return macro("epoch_us", _instant(node.this))


def _shifted(node: exp.Expr) -> exp.Expr:
    """Return an instant that a duration is added to or taken from: in UTC all days are of one length."""
    for duration, other in ((node.expression, node.this), (node.this, node.expression)):
        if is_shift(duration) and (length := length_us(duration)) is not None:
            micros = exp.cast(exp.Literal.number(length), "BIGINT")
            moved = type(node)(this=_micros(exp.UnixMicros(this=other.copy())), expression=micros)
            return macro("make_timestamptz", moved)
    return _of_no_days(node) if isinstance(node, exp.Sub) else node


def _of_no_days(node: exp.Expr) -> exp.Expr:
    """Have no days be taken from days: Spark gives an interval, DuckDB a number."""
    sides = (node.this, node.expression)
    if all(kind_of(side) in (DAY, None) for side in sides):
        for side in sides:
            if kind_of(side) == DAY:
                raise NotExactError("days less days")
        if all(isinstance(side, exp.Column) for side in sides):
            node.set("this", macro("ls_no_day", node.this))
    return node


def _millis(node: exp.Expr) -> exp.Expr:
    return macro("ls_millis", _instant(node.this))


def _days(node: exp.Expr) -> exp.Expr:
    return exp.cast(macro("ls_days", checked(node.this, "ls_date")), "INT")


def _month(node: exp.Expr) -> exp.Expr:
    return macro("ls_month", checked(node.expression, "ls_whole"))


def _part(node: exp.Expr) -> exp.Expr:
    return exp.cast(macro(PARTS[type(node)], _naive(node.this)), "INT")


def _extracted(node: exp.Expr) -> exp.Expr:
    return _part(FIELDS[node.name.upper()](this=node.expression.copy()))


def _written(node: exp.Expr) -> exp.Expr:
    """Return date_format() of a time, in a format of DuckDB's."""
    form = node.args["format"].name.replace("strict", "")
    return macro("ls_formatted", _naive(node.this.this), exp.Literal.string(form))


def _cut(node: exp.Expr) -> exp.Expr:
    unit = exp.Literal.string(node.args["unit"].name.lower())
    return macro("ls_cut", unit, checked(node.this, "ls_time"))


def _in_zone(node: exp.Expr) -> exp.Expr:
    """Return from_utc_timestamp() or to_utc_timestamp(), whose results Spark has as instants, too."""
    name = "ls_from_utc" if isinstance(node, exp.AtTimeZone) else "ls_to_utc"
    return macro(name, _instant(node.this), node.args["zone"])


REWRITES: Rewrites = {
    exp.AddMonths: _month,
    exp.UnixDate: _days,
    exp.UnixMicros: _micros,
    **dict.fromkeys((exp.Add, exp.Sub), _shifted),
    exp.UnixMillis: _millis,
    exp.TimeToStr: _written,
    exp.TimestampTrunc: _cut,
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), _in_zone),
    **dict.fromkeys(PARTS, _part),
    exp.Extract: _extracted,
}
