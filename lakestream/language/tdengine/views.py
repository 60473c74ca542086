"""Reader of CREATE MATERIALIZED VIEW: a query in Spark's own SQL, kept current as a stream is.

A query that groups by ``window(time, …)`` becomes windows of a time grid that follow every table it reads:
what changes is computed again. One of a single table that groups by ``session_window(time, gap)`` becomes
sessions of the groups that it groups by besides. Any other one is a single window; whether its rows fall
apart by keys, so that those that a change touches are computed again, is found once its tables are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import StatementError
from lakestream.language.common.aggregates import number_all_groups
from lakestream.language.common.query_clauses import said
from lakestream.language.common.source import place_of
from lakestream.language.expressions.checks import check_query
from lakestream.language.expressions.parsing import conjuncts, parse_query, place_in
from lakestream.language.model import (
    MICROS,
    CreateStream,
    DropStream,
    Duration,
    Fragment,
    GroupKey,
    IntervalTrigger,
    OutputLayout,
    RefreshView,
    SessionTrigger,
    StreamOptions,
    TableName,
    View,
    WholeTrigger,
)
from lakestream.language.policies import AtOnce, Exact, Follow
from lakestream.language.reading.identifiers import (
    refuse_duplicate,
    take_column_name,
    take_distinct_names,
    take_table_name,
)
from lakestream.language.reading.literals import take_string
from lakestream.language.tdengine.draft import Draft, definition
from lakestream.language.tdengine.options import Options
from lakestream.language.tdengine.triggers import ReadTrigger

if TYPE_CHECKING:
    from lakestream.language.model import StreamDefinition
    from lakestream.language.reading.reader import Reader

_REFUSED = "VIEW_NOT_INCREMENTAL"
POLICIES = ("AUTO", "INCREMENTAL", "FULL")
_WINDOW = "_lswin"
"""What stands for ``window`` while a query is parsed, as long as it: sqlglot takes no GROUP BY window(…)."""
_SESSION = "session_window"
_NAMED = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)
_SPAN = re.compile(r"\s*(\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?\b", re.IGNORECASE)
_UNITS = {
    "microsecond": 1,
    "millisecond": MICROS["a"],
    "second": MICROS["s"],
    "minute": MICROS["m"],
    "hour": MICROS["h"],
    "day": MICROS["d"],
    "week": MICROS["w"],
}


@dataclass
class _Clauses:
    """What stands before the query."""

    name: TableName
    columns: tuple[str, ...] = ()
    column_comments: tuple[str | None, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    policy: str = "AUTO"
    comment: str | None = None
    layout: Fragment | None = None

    def view(self, time: str | None = None) -> View:
        """Return what the options say of the view; ``time`` is the column that its windows are of."""
        return View(self.policy, time, comment=self.comment, column_comments=self.column_comments)


def create_view(reader: Reader, *, or_replace: bool = False) -> CreateStream:
    """Read what follows ``CREATE [OR REPLACE] MATERIALIZED VIEW``."""
    if_not_exists = not or_replace and reader.if_not_exists()
    clauses = _clauses(reader, take_table_name(reader, "a view's name"))
    reader.expect("AS")
    query = reader.rest("a query")
    check_query(_named(query))  # as it is written: it is written anew, without what Spark SQL has not
    whole = _whole(reader, clauses, query)
    if clauses.policy == "FULL":
        return CreateStream(whole, if_not_exists, or_replace)
    try:
        incremental = _incremental(reader, clauses, query)
    except StatementError as why:
        if why.code != _REFUSED:
            raise
        return CreateStream(_because(whole, why.message), if_not_exists, or_replace)
    if clauses.policy == "INCREMENTAL" and not isinstance(incremental.trigger, SessionTrigger):
        return CreateStream(incremental, if_not_exists, or_replace)
    otherwise = _because(whole, "not every change of its tables leads to windows")
    return CreateStream(incremental, if_not_exists, or_replace, otherwise)


def _clauses(reader: Reader, name: TableName) -> _Clauses:
    found, seen = _Clauses(name), set()
    if reader.sees_symbol("("):
        _columns(reader, found)
    while not reader.sees("AS"):
        clause = next((one for one in _READERS if reader.sees(*one.split())), None)
        if clause is None:
            _refuse_other(reader)
            raise reader.unexpected("AS or a clause of CREATE MATERIALIZED VIEW", (*_READERS, "AS"))
        if clause in seen:
            raise reader.error("CLAUSE_TWICE", f"{clause} is given twice")
        seen.add(clause)
        _READERS[clause](reader, found)
    return found


_OTHERS = {
    "CLUSTER BY": ("CLUSTER BY", "PARTITIONED BY"),
    "TBLPROPERTIES": ("TBLPROPERTIES", ""),
    "SCHEDULE": ("SCHEDULE", "views are refreshed as streams tick: `lakestream run`, or the daemon"),
    "TRIGGER ON UPDATE": ("TRIGGER ON UPDATE", "views are refreshed as streams tick, each change at once"),
    "WITH": ("a filter of rows", "a condition in the query"),
    "DEFAULT COLLATION": ("DEFAULT COLLATION", ""),
    "BUILD": ("BUILD", "the next run computes the view"),
}
"""Clauses of CREATE MATERIALIZED VIEW elsewhere (Databricks), and what stands in their place."""


def _refuse_other(reader: Reader) -> None:
    for words, (clause, instead) in _OTHERS.items():
        if reader.sees(*words.split()):
            raise reader.error("NOT_SUPPORTED", f"{clause} of a view is not supported", hint=instead)


def _columns(reader: Reader, found: _Clauses) -> None:
    """Take ``(name [COMMENT 'text'], …)``, what the results are called."""
    taken: set[str] = set()

    def one() -> tuple[str, str | None]:
        word = reader.peek()
        name = take_column_name(reader, "a column")
        refuse_duplicate(reader, name, taken, word)
        if not any((reader.sees("COMMENT"), reader.sees_symbol(","), reader.sees_symbol(")"))):
            hint = "CAST(… AS type) in the query"
            raise reader.error("NOT_SUPPORTED", f"of {name} a view gives the name and COMMENT", hint=hint)
        return name, take_string(reader, "a comment") if reader.accept("COMMENT") else None

    found.columns, found.column_comments = zip(*reader.list_of(one), strict=True)


def _partitioned_by(reader: Reader, found: _Clauses) -> None:
    begin = reader.at
    reader.expect("PARTITIONED", "BY")
    found.partitioned_by = take_distinct_names(reader, "a column")
    found.layout = reader.fragment(begin, reader.at)


def _policy(reader: Reader, found: _Clauses) -> None:
    reader.expect("REFRESH", "POLICY")
    word = reader.take()
    if word.text.upper() not in POLICIES:
        raise reader.error(
            "UNKNOWN_OPTION", f"there is no REFRESH POLICY {word.text}", word=word, hint=" or ".join(POLICIES)
        )
    found.policy = word.text.upper()


def _comment(reader: Reader, found: _Clauses) -> None:
    reader.expect("COMMENT")
    found.comment = take_string(reader, "a comment")


_READERS = {"PARTITIONED BY": _partitioned_by, "COMMENT": _comment, "REFRESH POLICY": _policy}


def drop_view(reader: Reader) -> DropStream:
    """Read what follows ``DROP MATERIALIZED VIEW``."""
    if_exists = reader.if_exists()
    return DropStream((take_table_name(reader, "a view's name"),), if_exists, is_view=True)


def refresh_view(reader: Reader) -> RefreshView:
    """Read what follows ``REFRESH MATERIALIZED VIEW``."""
    return RefreshView(take_table_name(reader, "a view's name"))


# --- the two ways ---


def _whole(reader: Reader, clauses: _Clauses, query: Fragment) -> StreamDefinition:
    """Return the view as a single window over all there is."""
    tree = parse_query(_named(query))
    for group in tree.find_all(exp.Group):
        first = group.expressions[0] if group.expressions else None
        if first is not None and _is_window(first):
            group.set("expressions", [exp.Paren(this=first.copy()), *group.expressions[1:]])
    for node in [node for node in tree.find_all(exp.Anonymous) if _is_window(node)]:
        node.set("this", "window")
    tables = [table for table in tree.find_all(exp.Table) if table.name]
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    named = [table for table in tables if table.db or table.name.lower() not in common]
    if not named:
        raise StatementError(
            "TRIGGER_TABLE", "a view reads at least one table", hint="FROM table", place=place_of(query)
        )
    source = named[0]
    trigger = ReadTrigger("VIEW", reader.words[0], WholeTrigger())
    options = StreamOptions(late=Exact(Follow()), fill_history=True, view=clauses.view())
    return _defined(reader, clauses, trigger, source, options, _written(query, tree))


def _because(whole: StreamDefinition, why: str) -> StreamDefinition:
    view = whole.options.view
    assert view is not None  # by _whole
    return replace(whole, options=replace(whole.options, view=replace(view, why=why)))


def _incremental(reader: Reader, clauses: _Clauses, query: Fragment) -> StreamDefinition:
    """Return the view as windows of a grid; StatementError VIEW_NOT_INCREMENTAL says why it is none."""
    tree = parse_query(_named(query))
    select = _plain(query, tree)
    call = _call(query, select)
    if not _is_window(call):
        return _by_sessions(reader, clauses, query, select, call)
    column, trigger = call.expressions[0], _grid(query, call)
    source = _source(query, select, column)
    keys = _put_times(select, call, "window", exp.column("_twend"))
    select.set("group", exp.Group(expressions=keys) if keys else None)
    if not keys:
        _ask_for_rows(select)
    bounds = f"{column.sql('spark')} >= _twstart AND {column.sql('spark')} < _twend"
    where = select.args.get("where")
    kept = " AND ".join(
        [bounds, *(f"({part.sql('spark')})" for part in (conjuncts(where.this) if where else []))]
    )
    select.where(exp.Var(this=kept), append=False, copy=False)
    options = StreamOptions(
        emission=AtOnce(),
        late=Exact(Follow()),
        fill_history=True,
        ignore_nodata=True,
        view=clauses.view(column.name),
    )
    read = ReadTrigger("INTERVAL", reader.words[0], trigger)
    return _defined(reader, clauses, read, source, options, _written(query, select))


def _defined(
    reader: Reader,
    clauses: _Clauses,
    trigger: ReadTrigger,
    source: exp.Table,
    options: StreamOptions,
    calculation: Fragment,
    *,
    groups: tuple[GroupKey, ...] = (),
) -> StreamDefinition:
    draft = Draft(
        trigger, partition_by=groups, source=TableName(source.db or None, source.name), output=clauses.name
    )
    draft.options = Options(options)
    draft.calculation = calculation
    draft.columns = clauses.columns
    if clauses.partitioned_by:
        draft.layout = OutputLayout(partitioned_by=clauses.partitioned_by, clause=clauses.layout)
    return definition(reader, clauses.name, draft)


def _named(query: Fragment) -> Fragment:
    return replace(query, sql=_NAMED.sub(_WINDOW, query.sql), spark=True)


def _written(query: Fragment, tree: exp.Query) -> Fragment:
    return replace(query, sql=str(tree.sql("spark")), spark=True, written=query.sql)


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in (_WINDOW, "window")


def _is_session(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == _SESSION


# --- windows of a grid ---


def _plain(query: Fragment, tree: exp.Query) -> exp.Select:
    """Return the select, of which each group's rows depend on the rows of its window alone."""
    if not isinstance(tree, exp.Select):
        raise _not_incremental(query, tree, "a set operation")
    for name, what in (
        ("distinct", "DISTINCT"),
        ("limit", "LIMIT"),
        ("offset", "OFFSET"),
        ("qualify", "QUALIFY"),
    ):
        if tree.args.get(name):
            raise _not_incremental(query, tree, what)
    if any(isinstance(node, exp.Window) for item in tree.selects for node in item.walk()):
        raise _not_incremental(query, tree, "a window function, which looks at all groups")
    number_all_groups(tree)
    group = tree.args.get("group")
    if group is None or not (group.expressions or group.args.get("all")):
        raise _not_incremental(query, tree, "a query without GROUP BY window(…)")
    if {name for name, value in group.args.items() if value} != {"expressions"}:
        raise _not_incremental(query, tree, "GROUPING SETS, ROLLUP and CUBE")
    tree.set("order", None)  # a table has no order
    return tree


def _call(query: Fragment, select: exp.Select) -> exp.Anonymous:
    """Return the window(…) or session_window(…) that a select is grouped by."""
    found = []
    for key in select.args["group"].expressions:
        if isinstance(key, exp.Literal) and not key.is_string and 0 < int(key.name) <= len(select.selects):
            key.replace(select.selects[int(key.name) - 1].unalias().copy())
    for key in select.args["group"].expressions:
        items = [
            item.unalias()
            for item in select.selects
            if item.alias == key.name and isinstance(key, exp.Column)
        ]
        meant = items[0] if items and (_is_window(items[0]) or _is_session(items[0])) else key
        if _is_window(meant) or _is_session(meant):
            found.append(meant)
            key.replace(meant.copy()) if meant is not key else None
    if len(found) != 1:
        raise _not_incremental(query, select, "a query without GROUP BY window(…)")
    call = found[0]
    assert isinstance(call, exp.Anonymous)  # by _is_window
    return call


def _grid(query: Fragment, call: exp.Anonymous) -> IntervalTrigger:
    """Return the grid of ``window(time, length[, step[, start]])``, which counts from 1970-01-01 UTC."""
    column, *spans = call.expressions
    if not isinstance(column, exp.Column) or not 1 <= len(spans) <= 3:
        raise _not_incremental(
            query, call, "window(…) of another thing than a column, by one to three durations"
        )
    micros = [_micros(query, span) for span in spans]
    length, step = micros[0], micros[1] if len(micros) > 1 else micros[0]
    offset = micros[2] if len(micros) > 2 else 0
    if not 0 < step <= length or not 0 <= offset < step:
        raise _not_incremental(
            query, call, "window(…) with gaps between its windows, or a start beyond a step"
        )
    return IntervalTrigger(_duration(length), _duration(offset), _duration(step))


def _micros(query: Fragment, span: exp.Expr) -> int:
    text, at, total = span.name if isinstance(span, exp.Literal) and span.is_string else "", 0, 0
    while part := _SPAN.match(text, at):
        total += int(part[1]) * _UNITS[part[2].lower()]
        at = part.end()
    if not text or text[at:].strip():
        raise _not_incremental(query, span, f"window(…) of {span.sql('spark')}, which is no fixed time")
    return total


def _duration(micros: int) -> Duration:
    for unit in ("h", "m", "s", "a"):
        if micros % MICROS[unit] == 0:
            return Duration(micros // MICROS[unit], unit)
    return Duration(micros, "u")


def _source(query: Fragment, select: exp.Select, column: exp.Column) -> exp.Table:
    """Return the table whose time the windows are of."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or [])]
    tables = [part.this for part in parts if part is not None]
    named = [one for one in tables if not column.table or one.alias_or_name.lower() == column.table.lower()]
    with_ = select.args.get("with_")
    common = {cte.alias.lower() for cte in with_.expressions} if with_ is not None else set()
    if len(named) != 1 or not isinstance(named[0], exp.Table) or named[0].name.lower() in common:
        what = f"window({column.sql('spark')}, …), which is not the time of one table"
        raise _not_incremental(query, column, what)
    return named[0]


def _put_times(select: exp.Select, call: exp.Anonymous, name: str, end: exp.Expr) -> list[exp.Expr]:
    """Put the times of the window where a select names it, and return what else it groups by.

    ``name`` is what Spark calls the window where it has no other name.
    """
    times = {"start": exp.column("_twstart"), "end": end}
    struct = f"named_struct('start', _twstart, 'end', {end.sql('spark')})"
    aliases = {item.alias.lower() for item in select.selects if item.unalias() == call and item.alias}

    def put(node: exp.Expr) -> exp.Expr:
        if node == call:
            return exp.Var(this=struct)
        if isinstance(node, exp.Dot) and node.this == call:
            return times[node.name.lower()].copy()
        if not isinstance(node, exp.Column):
            return node
        if node.table.lower() in {name, *aliases} and node.name.lower() in times:
            return times[node.name.lower()].copy()
        return exp.Var(this=struct) if not node.table and node.name.lower() == name else node

    items = []
    for item in select.selects:
        given = item.alias or (name if item.unalias() == call else item.alias_or_name)
        body = item.unalias().transform(put)
        items.append(exp.alias_(body, given, quoted=True) if given else body)
    select.set("expressions", items)
    having = select.args.get("having")
    if having is not None:
        having.set("this", having.this.transform(put))
    return [key.transform(put) for key in select.args["group"].expressions if key != call]


def _ask_for_rows(select: exp.Select) -> None:
    """Have a select without groups of its own give a row only where there are some to aggregate."""
    having = select.args.get("having")
    rows = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(0))
    both = rows if having is None else exp.and_(rows, having.this.copy())
    select.set("having", exp.Having(this=both))


# --- sessions ---


def _by_sessions(
    reader: Reader, clauses: _Clauses, query: Fragment, select: exp.Select, call: exp.Anonymous
) -> StreamDefinition:
    """Return the view as sessions: of the rows that WHERE keeps, and of groups by what it groups by besides.

    StatementError VIEW_NOT_INCREMENTAL where other tables, or other rows, have a say in that.
    """
    column, gap = _session(query, call)
    source = _only_table(query, select)
    end = exp.Var(this=f"timestamp_micros(unix_micros(_twend) + {gap})")
    keys = _put_times(select, call, _SESSION, end)
    _put_groups(query, select, keys)
    where = select.args.get("where")
    select.set("where", None)
    select.set("from_", exp.From(this=exp.Var(this="%%trows")))
    if not any(item.find(exp.AggFunc) for item in select.selects):
        _ask_for_rows(select)
    options = StreamOptions(
        emission=AtOnce(),
        late=Exact(),
        fill_history=True,
        pre_filter=None if where is None else _part(query, where.this),
        view=clauses.view(column.name),
    )
    read = ReadTrigger("SESSION", reader.words[0], SessionTrigger(column.name, _duration(gap)))
    groups = tuple(GroupKey(_part(query, key), str(key.sql("spark"))) for key in keys)
    return _defined(reader, clauses, read, source, options, _written(query, select), groups=groups)


def _session(query: Fragment, call: exp.Anonymous) -> tuple[exp.Column, int]:
    """Return the time and the gap (µs) of ``session_window(time, gap)``."""
    column, *spans = call.expressions
    if not isinstance(column, exp.Column) or len(spans) != 1:
        raise _not_incremental(query, call, "session_window(…) of another thing than a column, by a duration")
    return column, _micros(query, spans[0])


def _only_table(query: Fragment, select: exp.Select) -> exp.Table:
    """Return the one table that a select reads; its columns go without its name from then on."""
    source = select.args.get("from_")
    table = source.this if source is not None else None
    if len(list(select.find_all(exp.Query))) > 1 or not isinstance(table, exp.Table):
        raise _not_incremental(query, select, "session_window(…) of a query with others in it")
    beside = any(select.args.get(name) for name in ("joins", "laterals"))
    if beside or said(table) - {"this", "db", "alias"}:
        raise _not_incremental(query, select, "session_window(…) of more than one table as it is")
    for column in select.find_all(exp.Column):
        if column.table.lower() == table.alias_or_name.lower():
            column.set("table", None)
    return table


def _put_groups(query: Fragment, select: exp.Select, keys: list[exp.Expr]) -> None:
    """Put the values of groups where a select names what it groups by besides the session."""
    names = {item.alias.lower() for item in select.selects if not _is_column(item.unalias(), item.alias)}
    if any(_is_column(key, name) for key in keys for name in names):
        raise _not_incremental(query, select, "a key that is the name of a result")
    numbers = {_folded(key): number for number, key in reversed([*enumerate(keys, 1)])}

    def put(node: exp.Expr) -> exp.Expr:
        if node.find_ancestor(exp.AggFunc, exp.Filter):
            return node
        number = numbers.get(_folded(node))
        if number is not None:
            return exp.Var(this=f"%%{number}")
        if isinstance(node, exp.Column) and node.name != "_twstart":
            raise _not_incremental(query, node, f"{node.sql('spark')}, which is no key")
        return node

    for part in (*select.selects, select.args.get("having")):
        if part is not None:
            part.set("this", part.this.transform(put))
    select.set("group", None)


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.lower() == name.lower()


def _folded(node: exp.Expr) -> exp.Expr:
    """Return an expression with the names of columns as they are held against each other."""
    return node.transform(
        lambda part: exp.to_identifier(part.name.lower()) if isinstance(part, exp.Identifier) else part
    )


def _part(query: Fragment, node: exp.Expr) -> Fragment:
    return Fragment(str(node.sql("spark")), query.line, query.column, query.statement, spark=True)


def _not_incremental(query: Fragment, node: exp.Expr, what: str) -> StatementError:
    return StatementError(
        _REFUSED,
        f"not by windows: {what}",
        hint="REFRESH POLICY AUTO computes it again as a whole",
        place=place_in(query, node),
    )
