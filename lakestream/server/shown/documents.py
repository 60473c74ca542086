"""What the HTTP API answers, as JSON: instants are ISO 8601 text in UTC, durations seconds."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotations
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Health = Literal["ok", "failing", "stuck"]
"""Whether rounds go on, fail, or one of them does not end."""


class Problem(BaseModel):
    """What was wrong with a request; ``place`` is where in its statement."""

    code: str
    message: str
    hint: str = ""
    place: dict[str, Any] | None = None
    exit_status: int = 1


class ErrorDocument(BaseModel):
    """An error."""

    error: Problem


class OwnerDocument(BaseModel):
    """The daemon that serves the lake."""

    pid: int
    host: str
    since: datetime


class LakeDocument(BaseModel):
    """The lake."""

    root: str
    timezone: str
    version: str
    owner: OwnerDocument
    now: datetime


class ExpectationDocument(BaseModel):
    """An expectation: of rows of the ``source`` or the ``output``, and how many met it and did not."""

    name: str
    rows: str
    condition: str
    action: str
    passed: int
    violated: int


class StreamDocument(BaseModel):
    """A stream: lag in commits and seconds, counts since it was created, and what it does.

    ``doing`` is what Spark computes of it since ``begun_at``; where it ``waits_for_turn``, is to compute.
    """

    database: str
    name: str
    status: str
    tick: int | None
    version: int | None
    lag: int
    lag_seconds: float | None
    rows_in: int
    rows_out: int
    late: int
    rows_per_second: float
    last_tick_at: datetime | None
    last_tick_seconds: float | None
    next_due_at: datetime | None
    recalculating: str | None
    held_back: str | None
    why: str
    last_error: str | None
    retry_at: datetime | None
    waiting_groups: list[str]
    doing: str | None
    begun_at: datetime | None
    waits_for_turn: bool
    expectations: list[ExpectationDocument]
    quarantines: list[str]
    sources: list[str]
    output: str | None
    trigger: str


class QueryDocument(BaseModel):
    """A continuous query of IoTDB's dialect, as SHOW CQS lists it."""

    name: str
    sql: str
    state: str
    next_at: datetime
    last_at: datetime | None
    skipped: int
    last_error: str | None


class RunningDocument(BaseModel):
    """A statement that runs, or `waits` for its turn: who has sent it, from where, and when."""

    id: str
    user: str
    address: str
    sql: str
    since: datetime
    waits: bool


class RecalculationDocument(BaseModel):
    """A recalculation of ``[from, to)`` of event time: the parts done, and the rows that they wrote."""

    model_config = ConfigDict(populate_by_name=True)

    id: str
    start: datetime | None = Field(alias="from")
    end: datetime | None = Field(alias="to")
    done: int
    parts: int | None
    rows: int
    status: str


class FailureDocument(BaseModel):
    """A failure of a stream."""

    at: datetime
    code: str
    message: str


class StreamDetails(StreamDocument):
    """A stream with its definition, recalculations and failures; ``newest`` is its source's newest time."""

    sql: str
    created_at: datetime
    recalculations: list[RecalculationDocument]
    errors: list[FailureDocument]
    errors_table: str | None
    newest: datetime | None


class RunDocument(BaseModel):
    """A tick of a stream, or a failure."""

    tick: int
    kind: str
    at: datetime
    seconds: float
    rows_in: int
    rows_out: int
    windows: int
    late: int
    violated: int
    lag: int
    error: str | None


class ColumnDocument(BaseModel):
    """A column of rows and its type."""

    name: str
    type: str


class WindowDocument(BaseModel):
    """A window of event time, and whether it fired ``again`` in one of the last commits of the output."""

    start: datetime
    end: datetime
    again: bool


class RowsDocument(BaseModel):
    """Rows, newest first, and the window of each, null where the table does not tell it."""

    columns: list[ColumnDocument]
    rows: list[list[Any]]
    windows: list[WindowDocument | None]


class TableNode(BaseModel):
    """A table that streams read or write."""

    name: str
    kind: str


class StreamNode(BaseModel):
    """A stream between tables."""

    name: str
    reads: list[str]
    writes: str | None


class QueryNode(BaseModel):
    """A continuous query between tables."""

    name: str
    reads: list[str]
    writes: list[str]


class LineageDocument(BaseModel):
    """Tables and the streams and continuous queries between them."""

    tables: list[TableNode]
    streams: list[StreamNode]
    queries: list[QueryNode]


class DeliveryDocument(BaseModel):
    """A target of an event, and what became of it there: ``sent``, ``waiting``, or what went wrong."""

    target: str
    state: str


class EventDocument(BaseModel):
    """An event of the outbox; ``event`` is what is sent."""

    id: str
    stream: str
    at: datetime
    type: str
    group: str | None
    event: Any
    deliveries: list[DeliveryDocument]


class StatementRequest(BaseModel):
    """Statements to run; ``database`` is the one that they begin in, ``yes`` answers their questions."""

    model_config = ConfigDict(extra="forbid")

    sql: str
    dialect: str = "tdengine"
    database: str = "main"
    yes: bool = False


class StatementDocument(BaseModel):
    """The result of the last statement.

    ``types`` are those of the columns, ``truncated`` says that there were more rows than are sent, and
    ``database`` is the current one after the statements (``USE``).
    """

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    message: str
    truncated: bool
    database: str


class RangeRequest(BaseModel):
    """A range of event time, without bounds where they are left out."""

    model_config = ConfigDict(extra="forbid")

    start: str | None = Field(default=None, alias="from")
    end: str | None = Field(default=None, alias="to")


class RecalculateRequest(RangeRequest):
    """A range of event time, which without ``to`` ends with the stream's progress, or ``resync``."""

    resync: bool = False

    @model_validator(mode="after")
    def either(self) -> Self:
        """Refuse both and neither."""
        if (self.start is None) != self.resync or (self.resync and self.end is not None):
            raise ValueError("either from and perhaps to, or resync")
        return self


class DifferenceDocument(BaseModel):
    """A row that is not as it should be; null on the side that has no such row."""

    key: list[Any]
    expected: list[Any] | None
    found: list[Any] | None


class QuarantineDocument(BaseModel):
    """How the rows of a quarantine compare with those that are to be there."""

    table: str
    equal_rows: int
    expected_rows: int
    found_rows: int
    differing_rows: int


class VerificationDocument(BaseModel):
    """How a stream's output compares with the batch evaluation; the first 100 rows that differ."""

    stream: str
    columns: list[str]
    types: list[str]
    equal_rows: int
    expected_rows: int
    found_rows: int
    differing_rows: int
    differing: list[DifferenceDocument]
    late_ignored: int
    left_out_columns: list[str]
    left_out_rows: int
    left_out_reason: str
    others_rows: int | None
    compared_with: str
    quarantines: list[QuarantineDocument]


class MessageDocument(BaseModel):
    """What was done."""

    message: str


class QueuedDocument(MessageDocument):
    """The id of a recalculation that will be done, and when it was asked for."""

    id: str
    at: datetime
