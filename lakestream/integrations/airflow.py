"""Operators for Apache Airflow 3: statements, runs of streams, and their verification as tasks.

They work in the task's process, on the lake itself; no daemon is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from lakestream.integrations.running import refuse_failed, run_streams
from lakestream.lake import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class _OnALake(BaseOperator):  # type: ignore[misc]
    """A task on a lake: ``lake`` is its path or URI, ``profile`` the settings it is opened with."""

    ui_color = "#d7ece9"

    def __init__(self, *, lake: str, profile: str | None = None, **of_task: Any) -> None:  # noqa: ANN401
        super().__init__(**of_task)
        self.lake = lake
        self.profile = profile

    def _opened(self) -> Lake:
        given = {} if self.profile is None else {"profile": self.profile}
        return Lake(self.lake, settings=Settings(**given), create=False)


class LakestreamSQLOperator(_OnALake):
    """Runs statements, and returns what the last one gives: rows (the first ``limit``), or a message.

    ``sql`` is a text, or the name of a ``.sql`` file beside the DAG; ``dialect`` is what it is written in.
    """

    template_fields: ClassVar[Sequence[str]] = ("lake", "sql")
    template_ext: ClassVar[Sequence[str]] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql"}

    def __init__(
        self,
        *,
        sql: str,
        dialect: str = "tdengine",
        limit: int = 100,
        **of_lake: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**of_lake)
        self.sql = sql
        self.dialect = dialect
        self.limit = limit

    def execute(self, context: Context) -> list[dict[str, Any]] | str:  # noqa: ARG002 - Airflow's
        """Run the statements; raises what these raise."""
        with self._opened() as lake:
            result = lake.sql(self.sql, self.dialect, limit=self.limit)
            if not result.columns:
                return result.message
            return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


class LakestreamRunOperator(_OnALake):
    """Takes all that is new for streams (None: all of the lake), and returns what each did.

    The task fails where a stream does not go on (STREAM_FAILED), and is tried again as Airflow does.
    """

    template_fields: ClassVar[Sequence[str]] = ("lake", "streams")

    def __init__(self, *, streams: Sequence[str] | None = None, **of_lake: Any) -> None:  # noqa: ANN401
        super().__init__(**of_lake)
        self.streams = streams

    def execute(self, context: Context) -> dict[str, dict[str, object]]:  # noqa: ARG002 - Airflow's
        """Run the streams; the rows and ticks of each are logged and returned."""
        with self._opened() as lake:
            ran = run_streams(lake, self.streams)
        for name, one in ran.items():
            self.log.info("%s: %d ticks, %d rows in, %d out", name, one.ticks, one.rows_in, one.rows_out)
        refuse_failed(ran.items())
        return {name: one.to_dict() for name, one in ran.items()}


class LakestreamVerifyOperator(_OnALake):
    """Holds a stream's output against the batch evaluation of its definition, and fails where rows differ.

    ``start`` and ``end`` bound the windows by event time, half-open.
    """

    template_fields: ClassVar[Sequence[str]] = ("lake", "stream", "start", "end")

    def __init__(
        self,
        *,
        stream: str,
        start: str | None = None,
        end: str | None = None,
        **of_lake: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**of_lake)
        self.stream = stream
        self.start = start
        self.end = end

    def execute(self, context: Context) -> dict[str, int]:  # noqa: ARG002 - Airflow's
        """Verify the stream; another try would find the same, so that none is made."""
        with self._opened() as lake:
            found = lake.verify(self.stream, self.start, self.end)
        if not found.holds:
            listed = "\n".join(map(str, found.differing))
            raise AirflowFailException(f"{found.differing_rows} rows of {found.stream} differ:\n{listed}")
        return {"equal_rows": found.equal_rows, "differing_rows": found.differing_rows}
