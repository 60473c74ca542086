"""What a statement says, as frozen values. No code behind ``language`` asks for the dialect.

Texts of expressions and queries are kept as :class:`Fragment`: the slice of the statement and where
it stands, so that an error found later still points at its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Self

from lakestream.language.policies import OnClose, Refire
from lakestream.language.quoting import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.errors import Place
    from lakestream.language.policies import Emission, LatePolicy

TIME_UNITS = {"SECONDS": 1_000_000, "MILLISECONDS": 1_000, "MICROSECONDS": 1}
"""Microseconds of what a number counts, as ``TIMESTAMP BY column unit`` names it."""

MICROS = {
    "u": 1,
    "a": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
"""Microseconds of each unit of fixed length (of d and w: of a day without a change of clocks)."""


@dataclass(frozen=True)
class Fragment:
    """A slice of a statement, in its dialect, with its place (line and column from 1).

    ``stands_for`` are names in it that stand for other expressions: (name, text of the expression);
    ``spark``: its functions are Spark's, whatever TDengine calls so; ``written`` is what stands there of
    which this is other words, empty where it is itself.
    """

    sql: str
    line: int = 1
    column: int = 1
    statement: str = field(default="", repr=False, compare=False)
    stands_for: tuple[tuple[str, str], ...] = ()
    spark: bool = False
    written: str = field(default="", repr=False, compare=False)


class ColumnName(str):
    """A column's name as a statement has it, and where it stands there."""

    __slots__ = ("place",)
    place: Place | None

    def __new__(cls, name: str, place: Place | None = None) -> Self:
        """Return the name, which is a text like any other, with its place."""
        made = super().__new__(cls, name)
        made.place = place
        return made


@dataclass(frozen=True)
class TableName:
    """A table, stream or subtable name; ``database`` is None until the current one is filled in."""

    database: str | None
    name: str
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}" if self.database else self.name

    def within(self, database: str) -> TableName:
        """Return the name with the current database filled in where none was written."""
        return self if self.database else TableName(database, self.name, self.line, self.column)


@dataclass(frozen=True)
class CatalogName:
    """A table's name in a catalog of Spark's: ``[[catalog.]schema.]table``."""

    parts: tuple[str, ...]
    place: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the name as Spark SQL takes it, with back-ticks where it needs them."""
        return ".".join(part if _PLAIN_PART.fullmatch(part) else quoted(part) for part in self.parts)

    @classmethod
    def of(cls, written: str) -> CatalogName:
        """Return the name that ``str`` wrote.

        >>> CatalogName.of("main.`a.b``c`.t").parts
        ('main', 'a.b`c', 't')
        """
        return cls(tuple(plain or part.replace("``", "`") for plain, part in _WRITTEN_PART.findall(written)))


_PLAIN_PART = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WRITTEN_PART = re.compile(r"([A-Za-z_]\w*)|`((?:[^`]|``)+)`", re.ASCII)


@dataclass(frozen=True)
class Location:
    """Where a Delta table lies, as a statement says it: a path or a URI."""

    path: str
    place: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.path


LAYOUT_CLAUSES = ("PARTITIONED BY", "CLUSTER BY", "LOCATION", "USING TABLE")
"""Clauses of how and where a new output lies, in every syntax of streams (Delta, Spark)."""


@dataclass(frozen=True)
class OutputLayout:
    """How a new output lies in storage: PARTITIONED BY or CLUSTER BY columns, LOCATION or USING TABLE.

    Inside the lake it has no ``location``, and no ``catalog_name``, under which a catalog of Spark's has it;
    ``clause`` is where the columns are named.
    """

    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    location: Location | None = None
    catalog_name: CatalogName | None = None
    clause: Fragment | None = field(default=None, compare=False)

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that it names."""
        return self.partitioned_by or self.clustered_by

    @property
    def place(self) -> Place | None:
        """Where the statement says that it lies outside the lake, None where it does not."""
        outside = self.location or self.catalog_name
        return outside.place if outside else None


@dataclass(frozen=True)
class Duration:
    """A whole number of a unit: b ns, u us, a ms, s, m, h, d, w, n month, q quarter, y year (TDengine)."""

    value: int
    unit: str

    def __str__(self) -> str:
        return f"{self.value}{self.unit}"

    @property
    def months(self) -> int:
        """Months of a unit of months (n, q, y), else 0."""
        return self.value * {"n": 1, "q": 3, "y": 12}.get(self.unit, 0)

    @property
    def is_of_months(self) -> bool:
        """True for months, quarters and years, of which each is as long as the calendar has it."""
        return self.unit in "nqy"

    @property
    def is_calendar(self) -> bool:
        """True for days and longer, which follow the lake's time zone."""
        return self.unit in "dw" or self.is_of_months

    @property
    def micros(self) -> int:
        """Microseconds; of d and w without a change of clocks; b is rounded down. Not for n, q, y."""
        if self.unit == "b":
            return self.value // 1_000
        return self.value * MICROS[self.unit]


# --- triggers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IntervalTrigger:
    """``INTERVAL(length[, offset]) SLIDING(step)``: windows ``[k*step + offset, … + length)``.

    ``local``: steps below a day are counted from midnight of 1970-01-01 in the stream's time zone too.
    """

    length: Duration
    offset: Duration
    step: Duration
    local: bool = False


WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
MONTHS = (
    *("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE"),
    *("JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"),
)
CALENDAR_UNITS = {"WEEK": 0, "MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""The units of the calendar that are longer than a day, with their months."""


@dataclass(frozen=True)
class CalendarTrigger:
    """``CALENDAR(unit [FROM start])``: a window for each unit, from local midnight of its first day.

    ``unit`` is one of CALENDAR_UNITS. What FROM names is None where nothing is written: a week begins on
    Monday, all others on the 1st, a quarter and a year in January.
    """

    unit: str
    weekday: str | None = None
    month: str | None = None
    day: int | None = None

    @property
    def months(self) -> int:
        """Months of a window, 0 for a week."""
        return CALENDAR_UNITS[self.unit]


@dataclass(frozen=True)
class SlidingTrigger:
    """``SLIDING(step[, offset])``: instants of event time; a step under a day restarts daily."""

    step: Duration
    offset: Duration


@dataclass(frozen=True)
class SessionTrigger:
    """``SESSION(ts, gap)``: rows at most ``gap`` apart; ``column`` is the time column as written."""

    column: str
    gap: Duration


@dataclass(frozen=True)
class TrueFor:
    """``TRUE_FOR(d)``, ``(COUNT n)``, ``(d AND COUNT n)`` or ``(d OR COUNT n)``: what a window is at least.

    ``duration`` is from its first row to its last; ``either`` is true of OR.
    """

    duration: Duration | None = None
    rows: int | None = None
    either: bool = False

    def __str__(self) -> str:
        """Return it as it is written."""
        parts = [str(self.duration)] if self.duration is not None else []
        parts += [f"COUNT {self.rows}"] if self.rows is not None else []
        return f"TRUE_FOR({(' OR ' if self.either else ' AND ').join(parts)})"

    def holds(self, micros: str, rows: str) -> str:
        """Return SQL of whether a window is that much, over SQL of its µs and of how many rows it has."""
        parts = [f"{micros} >= {self.duration.micros}L"] if self.duration is not None else []
        parts += [f"{rows} >= {self.rows}L"] if self.rows is not None else []
        return f"({(' OR ' if self.either else ' AND ').join(parts)})"


@dataclass(frozen=True)
class StateRule:
    """``[EXTEND(0|1|2)] [ZEROTH_STATE(value, …)]``: how far windows reach, and which give nothing.

    ``extend`` 1: a window ends just before the next one begins; 2: it begins just behind the last one's end.
    ``zeroth`` has a value for each of the states, None for one that is not asked.
    """

    extend: int = 0
    zeroth: tuple[int | bool | str | None, ...] = ()

    def __str__(self) -> str:
        """Return it as it is written, with a blank before each clause."""
        listed = ", ".join("NO_ZEROTH" if value is None else literal(value) for value in self.zeroth)
        extend = f" EXTEND({self.extend})" if self.extend else ""
        return extend + (f" ZEROTH_STATE({listed})" if listed else "")

    def is_zeroth(self, states: Sequence[str]) -> str | None:
        """Return SQL of whether states, SQL of none that is NULL, are the zeroth; None where none is."""
        asked = zip(states, self.zeroth, strict=True) if self.zeroth else ()
        parts = [f"{state} = {literal(value)}" for state, value in asked if value is not None]
        return " AND ".join(parts) or None


@dataclass(frozen=True)
class StateTrigger:
    """``STATE_WINDOW(expression, …) [EXTEND(…)] [ZEROTH_STATE(…)] [TRUE_FOR(…)]``: runs of equal values."""

    states: tuple[Fragment, ...]
    true_for: TrueFor | None = None
    rule: StateRule = StateRule()


@dataclass(frozen=True)
class EventTrigger:
    """``EVENT_WINDOW(START WITH a END WITH b) [TRUE_FOR(…)]``: from a row with a to one with b."""

    start: Fragment
    end: Fragment
    true_for: TrueFor | None = None


@dataclass(frozen=True)
class CountTrigger:
    """``COUNT_WINDOW(count[, step][, columns])``: rows with a value in one of the columns count."""

    count: int
    step: int
    columns: tuple[Fragment, ...] = ()


@dataclass(frozen=True)
class PeriodTrigger:
    """``PERIOD(period[, offset])``: instants of the wall clock."""

    period: Duration
    offset: Duration


@dataclass(frozen=True)
class IdleTrigger:
    """``IDLE_TIMEOUT(timeout)``: groups of which no row has come for so long, and their next row.

    ``events`` of IDLE and RESUME compute, none where they are only told of; ``windows`` is the trigger that
    the statement names, whose windows count for nothing.
    """

    timeout: Duration
    events: tuple[str, ...]
    windows: Trigger


@dataclass(frozen=True)
class SlideTrigger:
    """A window for each row that meets ``when``: from ``length`` before it to ``delay`` after it.

    Without a delay the row's own instant is the last one of the window.
    """

    length: Duration
    delay: Duration
    when: Fragment | None = None


@dataclass(frozen=True)
class BoundedSessionTrigger:
    """Rows at most ``gap`` apart; cut at the first multiple of ``longest`` at which it is older than that."""

    longest: Duration
    gap: Duration


@dataclass(frozen=True)
class LatestTrigger:
    """The latest ``count`` rows, looked at every ``step`` of them."""

    count: int
    step: int


@dataclass(frozen=True)
class SpanTrigger:
    """From a row with ``begin`` to the first later one with ``end``, which is included.

    Without ``end`` every row with ``begin`` ends the window before it and begins the next.
    """

    begin: Fragment
    end: Fragment | None = None


@dataclass(frozen=True)
class WholeTrigger:
    """A single window that holds all there is: computed again whenever a table of the query has changed."""


GridTrigger = IntervalTrigger | CalendarTrigger | SlidingTrigger
"""Triggers whose windows follow from time alone."""

RowTrigger = SessionTrigger | StateTrigger | EventTrigger | CountTrigger
"""Triggers whose windows are cut by what rows there are."""

AdmittedTrigger = IntervalTrigger | SlideTrigger | BoundedSessionTrigger | LatestTrigger | SpanTrigger
"""Triggers of streams that leave late rows out (``LatePolicy.drops``)."""

Trigger = (
    GridTrigger
    | RowTrigger
    | PeriodTrigger
    | IdleTrigger
    | WholeTrigger
    | SlideTrigger
    | BoundedSessionTrigger
    | LatestTrigger
    | SpanTrigger
)

CLOCK = TableName("_lakestream", "clock")
"""What stands for the trigger table of a stream that has none: a table in which nothing happens."""

RESULTS = TableName("_lakestream", "results")
"""What stands for the output table of a stream that only notifies: a table that no statement names."""

GROUP_ID = "group_id"
"""The tag of an output whose statement names none, in the classic syntax."""

WINDOW_OPEN, WINDOW_CLOSE, ON_TIME = "WINDOW_OPEN", "WINDOW_CLOSE", "ON_TIME"
IDLE, RESUME = "IDLE", "RESUME"
"""The events that a statement may ask for."""


# --- streams -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupKey:
    """One item of PARTITION BY: an expression over the trigger table, and its output name.

    ``is_tbname`` marks the pseudo column ``tbname``; its default tag is called ``tag_tbname``.
    """

    expression: Fragment
    name: str
    is_tbname: bool = False


@dataclass(frozen=True)
class Fill:
    """``FILL(mode[, value, …])``: what a window without rows has in the place of its aggregates.

    ``mode`` is NULL, PREV (the values of the last window with rows) or VALUE, with a constant for each.
    """

    mode: str
    values: tuple[Fragment, ...] = ()

    def __str__(self) -> str:
        return f"FILL({', '.join([self.mode, *(value.sql for value in self.values)])})"


@dataclass(frozen=True)
class View:
    """That a stream is a materialized view: rows of a window have no key, and take the place of all it had.

    ``policy`` is its REFRESH POLICY. ``time`` is the column that its windows are of (None: it is computed as
    a whole), ``why`` says why it has none where AUTO found that; ``comment`` is that of its table, and
    ``column_comments`` are those of its columns, where it lists these.
    """

    policy: str
    time: str | None = None
    why: str = ""
    comment: str | None = None
    column_comments: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class StreamOptions:
    """STREAM_OPTIONS. ``history_start`` is event time as written, None for the earliest row.

    ``emission`` says when windows are computed, ``late`` what becomes of late rows and other changes.
    ``notify_only``: results are sent and not stored; ``fill``: what windows without rows hold (None: what
    the calculation gives over nothing); ``unique_times``: rows may not share a time by a composite key;
    ``converts``: results are converted to the columns of a table that is there, taken in order;
    ``names_apart``: no two groups share a subtable, also where its expression gives them one name;
    ``one_table``: rows of all subtables of the source go into one table, without subtables and tags;
    ``zone`` is the time zone (None: the lake's). ``view`` says that the stream is a materialized view.
    ``said`` is the clause as it was written, in the classic syntax all options.
    """

    watermark: Duration | None = None
    emission: Emission = field(default_factory=OnClose)
    late: LatePolicy = field(default_factory=Refire)
    fill_history: bool = False
    fill_history_first: bool = False
    history_start: str | None = None
    pre_filter: Fragment | None = None
    ignore_nodata: bool = False
    force_output: bool = False
    low_latency: bool = False
    delete_output: bool = False
    notify_only: bool = False
    fill: Fill | None = None
    unique_times: bool = False
    converts: bool = False
    names_apart: bool = False
    one_table: bool = False
    zone: str | None = None
    view: View | None = None
    said: Fragment | None = field(default=None, compare=False)

    @property
    def wants_history(self) -> bool:
        """True when rows written before the stream was created trigger too."""
        return self.fill_history or self.fill_history_first


@dataclass(frozen=True)
class TagDefinition:
    """One tag of TAGS (…): its TDengine type as written (None: the table's), comment and expression."""

    name: str
    type_name: str | None
    comment: str | None
    expression: Fragment


@dataclass(frozen=True)
class Notification:
    """NOTIFY: the urls that events are sent to, which events, and the condition on their results.

    ``history``: events of history are sent too; ``pauses``: the stream waits while a target cannot be
    reached. ``labels`` are the names that the result's columns have in messages; ``classic``: events
    also carry the names that fields had before 3.3.7 (windowId, windowType). ``places`` are line and
    column of each url.
    """

    urls: tuple[str, ...]
    events: tuple[str, ...]
    where: Fragment | None = None
    history: bool = False
    pauses: bool = False
    labels: tuple[str, ...] = ()
    classic: bool = False
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)


WARN, DROP, FAIL, QUARANTINE = "WARN", "DROP", "FAIL", "QUARANTINE"
"""What may become of a row that does not meet an expectation."""


@dataclass(frozen=True)
class Expectation:
    """``EXPECT name CHECK (condition) ON VIOLATION action``: what rows are to meet.

    ``of_results``: rows of the output, else those of the source. A row for which the condition is NULL does
    not meet it.
    """

    name: str
    condition: Fragment
    action: str = WARN
    of_results: bool = False

    def __str__(self) -> str:
        """Return it as it is written, with what it does."""
        condition = " ".join(self.condition.sql.split())
        return f"EXPECT {self.name} CHECK ({condition}) ON VIOLATION {self.action}"

    @property
    def keeps_rows(self) -> bool:
        """Whether rows that do not meet it stay where they are."""
        return self.action == WARN


@dataclass(frozen=True)
class EventFunction:
    """A function of an event and of those before it; ``column`` is the name that its results stand under.

    Events are told apart by ``partition_by``; one for which ``when`` does not hold counts for nothing, but
    has a result too. ``ignores_null``: neither does one without a value; ``offset``: how many events back;
    ``written`` is the call as it stands in the statement.
    """

    name: str
    column: str
    arguments: tuple[Fragment, ...]
    partition_by: tuple[Fragment, ...] = ()
    when: Fragment | None = None
    ignores_null: bool = True
    offset: int = 1
    written: str = field(default="", compare=False)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """What it looks at in an event."""
        return (*self.arguments, *self.partition_by, *((self.when,) if self.when else ()))


@dataclass(frozen=True)
class StreamDefinition:
    """A stream: trigger × calculation × output × notification. ``text`` is the statement it was read from.

    ``calculates`` is False for a stream whose calculation only stands for none: it tells of its events.
    """

    name: TableName
    trigger: Trigger
    source: TableName
    partition_by: tuple[GroupKey, ...]
    options: StreamOptions
    output: TableName
    subtable: Fragment | None
    columns: tuple[str, ...]
    composite_key: bool
    tags: tuple[TagDefinition, ...] | None
    calculation: Fragment
    text: str
    notification: Notification | None = None
    calculates: bool = True
    layout: OutputLayout = OutputLayout()
    expectations: tuple[Expectation, ...] = ()
    functions: tuple[EventFunction, ...] = ()

    @property
    def stores(self) -> bool:
        """Whether results go into a table of the user's, and are not only emitted as events."""
        return self.output != RESULTS

    def expected(self, *, of_results: bool) -> tuple[Expectation, ...]:
        """Return the expectations of its results, or those of its source."""
        return tuple(one for one in self.expectations if one.of_results == of_results)

    def within(self, database: str) -> StreamDefinition:
        """Return the definition with the current database filled in where none was written."""
        return replace(
            self,
            name=self.name.within(database),
            source=self.source.within(database),
            output=self.output.within(database),
        )


# --- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnDefinition:
    """A column or tag: TDengine's type as written (``VARCHAR(16)``), and an optional comment.

    ``composite_key`` marks the second column of a composite key (COMPOSITE KEY or PRIMARY KEY).
    """

    name: str
    type_name: str
    comment: str | None = None
    composite_key: bool = False


@dataclass(frozen=True)
class Now:
    """``NOW [± duration …]`` among the values of a statement: microseconds relative to the clock."""

    offset_micros: int = 0


Value = int | float | Decimal | str | bool | Now | None
"""A literal as written; a timestamp may be text, milliseconds since 1970 UTC, or NOW."""


@dataclass(frozen=True)
class CreateDatabase:
    """``CREATE DATABASE [IF NOT EXISTS] name``."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropDatabase:
    """``DROP DATABASE [IF EXISTS] name [FORCE]``."""

    name: str
    if_exists: bool = False
    force: bool = False


@dataclass(frozen=True)
class UseDatabase:
    """``USE name``."""

    name: str


@dataclass(frozen=True)
class ShowDatabases:
    """``SHOW DATABASES``."""


@dataclass(frozen=True)
class TimeBy:
    """``TIMESTAMP BY``: a column or a field of a struct (``path``), or an ``expression`` over one row.

    ``unit`` is what integers count (``MILLISECONDS``), ``format`` how a text is read (a format of
    TO_TIMESTAMP, or ``ISO8601``), ``name`` what the time is called (None: as its column or field, ``ts``
    for an expression); ``written`` is all but the name, as it stands there.
    """

    path: tuple[str, ...]
    expression: Fragment | None = None
    unit: str | None = None
    format: str | None = None
    name: str | None = None
    written: str = ""
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CreateTable:
    """``CREATE TABLE``/``CREATE STABLE … TAGS (…)``; with ``location``, a Delta table that exists.

    ``catalog_name`` names the table instead of its location (``USING TABLE``). The columns are empty for
    both: they come from the table. ``time`` says what its event time is then, None for the first timestamp
    column. Not ``keyed``: every row that is inserted is a row of its own, and no column need be a time.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...]
    tags: tuple[ColumnDefinition, ...] = ()
    if_not_exists: bool = False
    location: Location | None = None
    time: TimeBy | None = None
    keyed: bool = True
    catalog_name: CatalogName | None = None
    comment: str | None = None


@dataclass(frozen=True)
class CreateTableAs:
    """``CREATE TABLE name [COMMENT 'text'] AS SELECT …``: each row of the query is a row of its own."""

    name: TableName
    query: Fragment
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class SubtableSpec:
    """``name USING stable [(tag, …)] TAGS (value, …)``; tag_names empty means all in order."""

    name: TableName
    stable: TableName
    tag_names: tuple[str, ...]
    tag_values: tuple[Value, ...]


@dataclass(frozen=True)
class CreateSubtables:
    """``CREATE TABLE [IF NOT EXISTS] sub USING stb TAGS (…) [sub2 USING …]``."""

    subtables: tuple[SubtableSpec, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTable:
    """``DROP TABLE|STABLE [IF EXISTS] name``; a subtable too."""

    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class AddColumn:
    """``ALTER TABLE|STABLE name ADD COLUMN|TAG column type``."""

    table: TableName
    column: ColumnDefinition
    is_tag: bool = False


@dataclass(frozen=True)
class SetComment:
    """``COMMENT ON TABLE|COLUMN``: a text, empty for none, of a table or of a column of it."""

    table: TableName
    column: str | None
    text: str


@dataclass(frozen=True)
class SetTag:
    """``ALTER TABLE sub SET TAG tag = value [, …]``."""

    table: TableName
    tags: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class InsertTarget:
    """One table of an INSERT: with USING it is made (with its tags) when it is not there yet."""

    table: TableName
    using: SubtableSpec | None
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Insert:
    """``INSERT INTO t1 [USING …] [(cols)] VALUES (…) (…) [t2 …]``: one statement, several tables."""

    targets: tuple[InsertTarget, ...]


@dataclass(frozen=True)
class InsertQuery:
    """``INSERT INTO t [(cols)] SELECT …``."""

    table: TableName
    columns: tuple[str, ...]
    query: Fragment


@dataclass(frozen=True)
class Update:
    """``UPDATE t SET column = expression [, …] [WHERE …]``."""

    table: TableName
    assignments: tuple[tuple[str, Fragment], ...]
    where: Fragment | None


@dataclass(frozen=True)
class Delete:
    """``DELETE FROM t [WHERE …]``."""

    table: TableName
    where: Fragment | None


@dataclass(frozen=True)
class Describe:
    """``DESCRIBE|DESC table``."""

    table: TableName


@dataclass(frozen=True)
class DescribeHistory:
    """``DESCRIBE|DESC HISTORY table [LIMIT n]``; no limit: all versions that the log has."""

    table: TableName
    limit: int | None = None


@dataclass(frozen=True)
class ShowProperties:
    """``SHOW TBLPROPERTIES table [('key')]``; no key: all of them."""

    table: TableName
    key: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """``SHOW [db.]TABLES`` or ``SHOW [db.]STABLES``."""

    database: str | None = None
    stables: bool = False


@dataclass(frozen=True)
class ShowSnodes:
    """``SHOW SNODES``."""


@dataclass(frozen=True)
class ShowQueries:
    """``SHOW QUERIES``."""


@dataclass(frozen=True)
class KillQuery:
    """``KILL QUERY 'id'``."""

    id: str


@dataclass(frozen=True)
class ShowStreams:
    """``SHOW [db.]STREAMS [LIKE 'pattern']``."""

    database: str | None = None
    like: str | None = None


@dataclass(frozen=True)
class ShowCreateStream:
    """``SHOW CREATE STREAM name``."""

    name: TableName


@dataclass(frozen=True)
class CreateStream:
    """``CREATE STREAM [IF NOT EXISTS] …`` or ``CREATE OR REPLACE STREAM …``, and so of a materialized view.

    ``otherwise`` is what is made where the lake does not let the definition be, None for nothing.
    """

    definition: StreamDefinition
    if_not_exists: bool = False
    or_replace: bool = False
    otherwise: StreamDefinition | None = None


@dataclass(frozen=True)
class DropStream:
    """``DROP STREAM [IF EXISTS] name, …``; of a materialized view (``is_view``) its table goes too."""

    names: tuple[TableName, ...]
    if_exists: bool = False
    is_view: bool = False


@dataclass(frozen=True)
class RefreshView:
    """``REFRESH MATERIALIZED VIEW name``: what is new in its tables is taken now."""

    name: TableName


@dataclass(frozen=True)
class StartStream:
    """``START STREAM [IF EXISTS] [IGNORE UNTREATED] name``."""

    name: TableName
    if_exists: bool = False
    ignore_untreated: bool = False


@dataclass(frozen=True)
class StopStream:
    """``STOP STREAM [IF EXISTS] name``."""

    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class FlushStream:
    """``FLUSH STREAM name``: what is open closes, as if no row were ever to come."""

    name: TableName


@dataclass(frozen=True)
class RecalculateStream:
    """``RECALCULATE STREAM name FROM t1 [TO t2]``, half-open, or ``RECALCULATE STREAM name RESYNC``.

    ``start`` is None for RESYNC, ``end`` None for everything up to the stream's progress.
    """

    name: TableName
    start: str | None = None
    end: str | None = None


@dataclass(frozen=True)
class VerifyStream:
    """``VERIFY STREAM name [FROM t1 TO t2]``: event times as written, half-open."""

    name: TableName
    start: str | None = None
    end: str | None = None


@dataclass(frozen=True)
class ExplainStream:
    """``EXPLAIN STREAM name``."""

    name: TableName


@dataclass(frozen=True)
class ExplainQuery:
    """``EXPLAIN`` and a query: who computes it, and what it reads."""

    query: Fragment


@dataclass(frozen=True)
class Query:
    """Any other SELECT (or WITH … SELECT, VALUES): Spark SQL over the lake's tables."""

    query: Fragment


Statement = (
    CreateDatabase
    | DropDatabase
    | UseDatabase
    | ShowDatabases
    | CreateTable
    | CreateTableAs
    | CreateSubtables
    | DropTable
    | AddColumn
    | SetComment
    | SetTag
    | Insert
    | InsertQuery
    | Update
    | Delete
    | Describe
    | DescribeHistory
    | ShowProperties
    | ShowTables
    | ShowSnodes
    | ShowQueries
    | KillQuery
    | ShowStreams
    | ShowCreateStream
    | CreateStream
    | DropStream
    | RefreshView
    | StartStream
    | StopStream
    | FlushStream
    | RecalculateStream
    | VerifyStream
    | ExplainStream
    | ExplainQuery
    | Query
)
