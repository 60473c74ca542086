"""What can be refused by the text alone: placeholders, functions, tables and names in queries.

The catalog's part (which tables and columns there are, and their types) is checked by the lake.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError, did_you_mean
from lakestream.language.common.aggregates import is_aggregate
from lakestream.language.common.allowed import REFUSED, names_of
from lakestream.language.common.dialect import NAME
from lakestream.language.common.functions import CLOCK, Meaning
from lakestream.language.common.query_clauses import InnerWindow
from lakestream.language.common.source import place_of
from lakestream.language.expressions.grouping import asks_for_subtables, selected_groups
from lakestream.language.expressions.kept import refuse_dropped
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import (
    column_names,
    parse_expression,
    parse_query,
    place_in,
    stands_for_columns,
)
from lakestream.language.expressions.written import refuse_unwritten
from lakestream.language.names import FILE_FORMATS, check_column_name, check_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lakestream.language.model import Expectation, Fragment, GroupKey, TableName, TagDefinition

COMMON_PLACEHOLDERS = frozenset({"_tgrpid", "_tlocaltime"})
WINDOW_PLACEHOLDERS = frozenset({"_twstart", "_twend", "_twduration", "_twrownum"})
SLIDING_PLACEHOLDERS = frozenset({"_tprev_ts", "_tcurrent_ts", "_tnext_ts"})
TIME_PLACEHOLDERS = frozenset({"_twstart", "_twend", *SLIDING_PLACEHOLDERS})
"""The placeholders that are instants."""
PERIOD_PLACEHOLDERS = frozenset({"_tprev_localtime", "_tnext_localtime"})
IDLE_PLACEHOLDERS = frozenset({"_tidlestart", "_tidleend"})
CLOCK_PLACEHOLDERS = PERIOD_PLACEHOLDERS | IDLE_PLACEHOLDERS
"""The placeholders that are instants of the wall clock, as nanoseconds."""
PLACEHOLDERS = COMMON_PLACEHOLDERS | WINDOW_PLACEHOLDERS | SLIDING_PLACEHOLDERS | CLOCK_PLACEHOLDERS
UNBUILT_PLACEHOLDERS = frozenset({"_qstart", "_qend", "_qduration", "_trollup_tbcount"})
INNER_WINDOW_COLUMNS = frozenset({"_wstart", "_wend", "_wduration"})

_OWNERS = {
    WINDOW_PLACEHOLDERS: "window triggers such as INTERVAL",
    SLIDING_PLACEHOLDERS: "SLIDING without INTERVAL",
    PERIOD_PLACEHOLDERS: "PERIOD",
    IDLE_PLACEHOLDERS: "EVENT_TYPE(IDLE | RESUME)",
}
IDLE_TIMEOUT = "IDLE_TIMEOUT"
"""What triggers a stream of groups that fall idle, in the place of a trigger's keyword."""
_BY_TRIGGER = {
    "SLIDING": SLIDING_PLACEHOLDERS,
    "PERIOD": PERIOD_PLACEHOLDERS,
    IDLE_TIMEOUT: IDLE_PLACEHOLDERS,
}

_NON_DETERMINISTIC = frozenset(
    {"rand", "random", "randn", "randstr", "uniform", "uuid", "gen_random_uuid", "shuffle", "today", "now"}
    | {
        "monotonically_increasing_id",
        "spark_partition_id",
        "curdate",
        "localtimestamp",
        "localtime",
        "getdate",
    }
    | {
        "current_timestamp",
        "current_date",
        "current_time",
        "current_datetime",
        "current_timestamp_ltz",
        "sysdate",
    }
    | {"current_user", "session_user", "user", "current_database", "current_schema", "current_catalog"}
    | {
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "utc_timestamp",
        "utc_date",
        "utc_time",
    }
)
_FORBIDDEN_NODES = (
    exp.QueryTransform,
    exp.Into,
    exp.DML,
    exp.DDL,
    exp.Command,
    exp.Set,
    exp.Use,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Lock,
    exp.Hint,
)


@dataclass(frozen=True)
class StreamFacts:
    """The parts of a stream that the checks look at; ``trigger`` is the trigger's keyword.

    ``filters_rows``: WHERE over the rows of a window has a meaning of its own.
    """

    trigger: str
    output: TableName | None
    partition_by: tuple[GroupKey, ...]
    columns: tuple[str, ...]
    tags: tuple[TagDefinition, ...]
    subtable: Fragment | None
    calculation: Fragment | None
    pre_filter: Fragment | None
    notify_where: Fragment | None
    expectations: tuple[Expectation, ...]
    labels: tuple[str, ...]
    has_source: bool
    fires_at_open: bool
    filters_rows: bool = False


# --- any query or expression ---------------------------------------------------------------------


def check_query(f: Fragment) -> Fragment:
    """Return the fragment of a query outside of a stream, once it is known to be harmless.

    Raises StatementError: SYNTAX, FORBIDDEN (files, scripts, Java, other statements), PLACEHOLDER.
    """
    tree = parse_query(f)
    _check_harmless(f, tree)
    _refuse_marks(f, tree, "a query outside of a stream")
    return f


def check_expression(f: Fragment, clause: str) -> Fragment:
    """Return the fragment of a scalar expression over one row, once it is known to be one.

    Raises StatementError: SYNTAX, FORBIDDEN, PLACEHOLDER, and NOT_SCALAR for subqueries, aggregates and
    window functions; messages name the clause.
    """
    tree = parse_expression(f)
    _check_harmless(f, tree)
    _check_scalar(f, tree, clause)
    _refuse_marks(f, tree, clause)
    return f


def refuse_functions(f: Fragment, names: frozenset[str], where: str) -> None:
    """Raise StatementError FUNCTION_NOT_ALLOWED for a call of one of these functions in a query."""
    for node in parse_query(f).find_all(exp.Func):
        if name := _function(node, names):
            raise StatementError(
                "FUNCTION_NOT_ALLOWED", f"{name} is not allowed in {where}", place=place_in(f, node)
            )


def _check_harmless(f: Fragment, tree: exp.Expr) -> None:
    """Refuse what a query may not do, and what would be left out of it."""
    _check_reach(f, tree)
    refuse_dropped(tree, partial(place_in, f))
    refuse_unwritten(f, tree, partial(place_in, f))


def _check_reach(f: Fragment, tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, _FORBIDDEN_NODES):
            raise _forbidden(f, node, f"{type(node).__name__.upper()} is not allowed in a query")
        if isinstance(node, (exp.Parameter, exp.Placeholder)):
            raise _forbidden(f, node, "parameters are not allowed: a statement says all it means")
        if isinstance(node, exp.Table):
            _check_table(f, node)
        if isinstance(node, exp.Func) and NAME not in node.meta and (name := _function(node, REFUSED.keys())):
            raise _forbidden(f, node, f"the function {name} is not allowed: {REFUSED[name]}")


def _forbidden(f: Fragment, node: exp.Expr, message: str) -> StatementError:
    return StatementError(
        "FORBIDDEN",
        message,
        hint="a query reads tables of the lake and nothing else",
        place=place_in(f, node),
    )


def _function(node: exp.Expr, among: Collection[str]) -> str:
    """Return the function's name when it is one of these, however sqlglot calls it."""
    return next((name for name in names_of(node) if name in among), "")


def _check_table(f: Fragment, table: exp.Table) -> None:
    if isinstance(table.this, exp.Func):
        return  # a table function: checked as a function
    if table.args.get("catalog") or isinstance(table.this, exp.Dot):
        raise _forbidden(f, table, f"{table.sql('spark')}: a table is named database.table at most")
    if table.db.lower() in FILE_FORMATS:
        raise _forbidden(f, table, f"{table.sql('spark')} reads files by their path")
    for part in (table.db, table.name):
        if part and not part.startswith("%%"):
            check_name(part, place_in(f, table))


def _check_scalar(f: Fragment, tree: exp.Expr, clause: str) -> None:
    kinds = (exp.Query, exp.Window, exp.Star)
    node = next((node for node in tree.walk() if isinstance(node, kinds) or is_aggregate(node)), None)
    if node is not None:
        kind = "a subquery" if isinstance(node, exp.Query) else "an aggregate or window function"
        raise StatementError(
            "NOT_SCALAR",
            f"{clause} takes an expression over one row, not {kind}",
            place=place_in(f, node),
        )


def _marks(tree: exp.Expr) -> Iterator[exp.Column | exp.Table]:
    """Yield the columns and tables that are placeholders beginning with ``%%``."""
    for node in tree.find_all(exp.Column, exp.Table):
        if isinstance(node, (exp.Column, exp.Table)) and node.name.startswith("%%"):
            yield node


def _refuse_marks(f: Fragment, tree: exp.Expr, where: str) -> None:
    for node in _marks(tree):
        raise StatementError("PLACEHOLDER", f"{node.name} has no meaning in {where}", place=place_in(f, node))


def _check_inner_columns(f: Fragment, tree: exp.Expr) -> None:
    if next(tree.find_all(InnerWindow), None) is not None:
        return
    for column in _bare_columns(tree):
        if column.name.lower() in INNER_WINDOW_COLUMNS:
            raise StatementError(
                "PLACEHOLDER",
                f"{column.name} needs a query with a window, such as INTERVAL(…)",
                hint="the window of a stream's trigger is _twstart, _twend",
                place=place_in(f, column),
            )


def _bare_columns(tree: exp.Expr) -> Iterator[exp.Column]:
    """Yield the columns written without quotes and without a table."""
    for column in tree.find_all(exp.Column):
        if not column.table and isinstance(column.this, exp.Identifier) and not column.this.quoted:
            yield column


# --- streams -------------------------------------------------------------------------------------


def check_stream(facts: StreamFacts) -> None:
    """Check the expressions and the query of a CREATE STREAM. Raises StatementError with the place."""
    for key in facts.partition_by:
        check_row_expression(key.expression, "PARTITION BY")
    if facts.pre_filter is not None:
        check_row_expression(facts.pre_filter, "PRE_FILTER")
    for expectation in facts.expectations:
        check_row_expression(expectation.condition, f"EXPECT {expectation.name}")
    if facts.subtable is not None:
        _check_group_expression(facts, facts.subtable, "OUTPUT_SUBTABLE")
    for tag in facts.tags:
        _check_group_expression(facts, tag.expression, f"TAGS ({tag.name})")
    names = _check_calculation(facts) if facts.calculation is not None else []
    if facts.notify_where is not None:
        _check_notify_where(facts, facts.notify_where, list(facts.labels) or list(facts.columns) or names)


def check_row_expression(f: Fragment, clause: str) -> Fragment:
    """Return a scalar expression over one row that must give the same whenever it is computed, once checked.

    Raises StatementError as :func:`check_expression`, and NON_DETERMINISTIC.
    """
    tree = parse_expression(f)
    _check_deterministic(f, tree)
    check_expression(f, clause)
    tree = in_spark(tree, Meaning(), f)
    for column in _bare_columns(tree):
        if column.name.lower() in PLACEHOLDERS:
            raise StatementError(
                "PLACEHOLDER", f"{column.name} has no meaning in {clause}", place=place_in(f, column)
            )
    return f


def _check_deterministic(f: Fragment, tree: exp.Expr) -> None:
    """Refuse what gives another result when a tick is computed once more.

    NOW and TODAY are judged where they get their meaning: in a calculation they are the tick's clock.
    """
    for node in tree.find_all(exp.Func, exp.TableSample):
        if node.meta.get(NAME) in CLOCK:
            continue
        name = "TABLESAMPLE" if isinstance(node, exp.TableSample) else _function(node, _NON_DETERMINISTIC)
        if name:
            raise _non_deterministic(f, node, name)
    for column in _bare_columns(tree):
        if column.name.lower() in ("now", "today", "localtimestamp") and NAME not in column.meta:
            raise _non_deterministic(f, column, column.name)


def _non_deterministic(f: Fragment, node: exp.Expr, name: str) -> StatementError:
    return StatementError(
        "NON_DETERMINISTIC",
        f"{name} gives another result each time, a stream must give the same for the same data",
        hint="the trigger's wall clock is _tlocaltime, in nanoseconds",
        place=place_in(f, node),
    )


def _check_group_expression(facts: StreamFacts, f: Fragment, clause: str) -> None:
    """Check an expression over the grouping columns: OUTPUT_SUBTABLE and TAGS."""
    tree = parse_expression(f)
    _check_harmless(f, tree)
    _check_scalar(f, tree, clause)
    _check_deterministic(f, tree)
    tree = in_spark(tree, Meaning(), f)
    for mark in _marks(tree):
        _check_mark(facts, f, mark)
    known = {key.name for key in facts.partition_by}
    known |= {"tbname"} if any(key.is_tbname for key in facts.partition_by) else set()
    for column in tree.find_all(exp.Column):
        name = column.name.lower()
        if not name.startswith("%%") and name not in {k.lower() for k in known} | {"_tgrpid"}:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{clause}: {column.name} is no grouping column of PARTITION BY",
                hint=did_you_mean(column.name, known),
                place=place_in(f, column),
            )


def _check_calculation(facts: StreamFacts) -> list[str]:
    """Check a stream's query; returns the names of its columns, nothing when a star hides them."""
    f = facts.calculation
    if f is None:
        return []
    tree = parse_query(f)
    _check_harmless(f, tree)
    _check_deterministic(f, tree)
    _check_inner_columns(f, tree)
    for mark in _marks(tree):
        _check_mark(facts, f, mark)
    for column in _bare_columns(tree):
        _check_placeholder(facts, f, column)
    _check_sources(facts, f, tree)
    return _check_projections(facts, f, tree)


def _check_sources(facts: StreamFacts, f: Fragment, tree: exp.Query) -> None:
    """Refuse a query on the output table, as far as the names show it."""
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = f"{table.db}.{table.name}" if table.db else table.name
        if (
            facts.output is not None
            and name.lower() == str(facts.output).lower()
            and name.lower() not in common
        ):
            raise StatementError(
                "OUTPUT_IS_SOURCE",
                f"the query reads {name}, which is the output table",
                place=place_in(f, table),
            )


def _check_placeholder(facts: StreamFacts, f: Fragment, column: exp.Column) -> None:
    name = column.name.lower()
    if name in UNBUILT_PLACEHOLDERS:
        raise NotSupportedError(f"the placeholder {column.name}", place=place_in(f, column))
    allowed = _BY_TRIGGER.get(facts.trigger, WINDOW_PLACEHOLDERS) | COMMON_PLACEHOLDERS
    if facts.fires_at_open and name == "_twrownum":
        raise StatementError(
            "PLACEHOLDER",
            "_twrownum counts the rows of a closing, EVENT_TYPE(WINDOW_OPEN) has none",
            place=place_in(f, column),
        )
    for names, owner in _OWNERS.items():
        if name in names and name not in allowed:
            raise StatementError(
                "PLACEHOLDER",
                f"{column.name} belongs to {owner}, this stream is triggered by {facts.trigger}",
                hint=f"{facts.trigger} has {', '.join(sorted(allowed))}",
                place=place_in(f, column),
            )


def _check_mark(facts: StreamFacts, f: Fragment, mark: exp.Column | exp.Table) -> None:
    """Check ``%%trows``, ``%%tbname`` or ``%%n`` where it stands."""
    place = place_in(f, mark)
    name = mark.name.lower()
    if name == "%%trows":
        _check_trows(facts, f, mark)
    elif name == "%%tbname":
        if not any(key.is_tbname for key in facts.partition_by):
            raise StatementError(
                "PLACEHOLDER",
                "%%tbname needs tbname in PARTITION BY",
                hint="PARTITION BY tbname",
                place=place,
            )
    elif not name[2:].isdigit():
        hint = did_you_mean(mark.name, ("%%trows", "%%tbname", "%%1"))
        raise StatementError("PLACEHOLDER", f"there is no placeholder {mark.name}", hint=hint, place=place)
    elif isinstance(mark, exp.Table):
        raise StatementError("PLACEHOLDER", f"{mark.name} is a value, not a table", place=place)
    else:
        _check_number(facts, mark.name, f, mark)


def _check_number(facts: StreamFacts, name: str, f: Fragment, mark: exp.Expr) -> None:
    count = len(facts.partition_by)
    # More than four digits are beyond any list of columns; int() of a huge text would be slow.
    if not (len(name) <= 6 and 1 <= int(name[2:]) <= count):
        columns = f"1 to {count}" if count else "none without PARTITION BY"
        raise StatementError(
            "PLACEHOLDER",
            f"{name} is no grouping column of PARTITION BY",
            hint=f"there are {columns}",
            place=place_in(f, mark),
        )


def _check_trows(facts: StreamFacts, f: Fragment, mark: exp.Column | exp.Table) -> None:
    place = place_in(f, mark)
    if isinstance(mark, exp.Column) or mark.db:
        raise StatementError(
            "PLACEHOLDER", "%%trows may stand only in FROM", hint="FROM %%trows", place=place
        )
    if not facts.has_source:
        raise StatementError(
            "PLACEHOLDER", "%%trows needs a trigger table", hint="PERIOD(…) FROM table", place=place
        )
    if facts.trigger == IDLE_TIMEOUT:
        raise StatementError(
            "PLACEHOLDER",
            "%%trows holds the rows of a window, IDLE and RESUME have none",
            hint="FROM %%tbname, or the trigger table by its name",
            place=place,
        )
    if facts.fires_at_open:
        raise StatementError(
            "PLACEHOLDER",
            "%%trows holds the rows of a closing, EVENT_TYPE(WINDOW_OPEN) has none",
            place=place,
        )
    select = mark.parent_select
    if isinstance(mark.parent, exp.Join) or (select is not None and select.args.get("joins")):
        raise StatementError(
            "TROWS_JOINED", "%%trows cannot be joined", hint="FROM %%tbname can", place=place
        )
    if select is not None and select.args.get("where") and not facts.filters_rows:
        raise StatementError(
            "TROWS_FILTERED",
            "a query on %%trows cannot have WHERE",
            hint="STREAM_OPTIONS(PRE_FILTER(…)) filters what triggers",
            place=place,
        )


def _check_projections(facts: StreamFacts, f: Fragment, tree: exp.Query) -> list[str]:
    items = tree.selects
    if any(map(stands_for_columns, items)):
        return []
    if facts.columns:
        if len(items) != len(facts.columns):
            raise StatementError(
                "COLUMN_COUNT",
                f"the query has {len(items)} columns, {len(facts.columns)} are named",
                place=place_of(f),
            )
        return list(facts.columns)
    return _projection_names(facts, f, tree)


def _projection_names(facts: StreamFacts, f: Fragment, tree: exp.Query) -> list[str]:
    names = column_names(tree.selects)
    tags = [tag.name for tag in facts.tags] or [key.name for key in facts.partition_by]
    taken = {tag.lower() for tag in tags}
    if not asks_for_subtables(facts.partition_by, facts.subtable, facts.tags):
        taken -= {key.lower() for key in selected_groups(facts.partition_by, tree, names)}
    for item, name in zip(tree.selects, names, strict=True):
        place = place_in(f, item)
        check_column_name(name, place)
        if name.lower() in taken:
            raise StatementError("DUPLICATE_COLUMN", f"the result column {name} is there twice", place=place)
        taken.add(name.lower())
    return list(names)


def _check_notify_where(facts: StreamFacts, f: Fragment, names: list[str]) -> None:
    _check_deterministic(f, parse_expression(f))
    check_expression(f, "NOTIFY … WHERE")
    in_spark(parse_expression(f), Meaning(), f)
    for column in parse_expression(f).find_all(exp.Column):
        if facts.calculation is None:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"NOTIFY … WHERE: {column.name} is no result column, there is no calculation",
                hint="AS SELECT …",
                place=place_in(f, column),
            )
        if names and column.name.lower() not in {name.lower() for name in names}:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"NOTIFY … WHERE: {column.name} is no result column",
                hint=did_you_mean(column.name, names),
                place=place_in(f, column),
            )
