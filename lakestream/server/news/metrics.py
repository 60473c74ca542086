"""Metrics for Prometheus: the lake's state as it is when asked, and what the daemon has counted."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lakestream import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.core import Metric

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.statements.status import StreamStatus

_TICK_SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_STATUSES = ("Running", "Retrying", "Stopped", "Failed")


class Metrics:
    """The metrics of one daemon.

    ``statuses`` gives the streams as they are, ``waiting`` how many events wait for each target, ``deaths``
    how often Spark has died.
    """

    def __init__(
        self,
        statuses: Callable[[], Sequence[StreamStatus]],
        waiting: Callable[[], dict[str, int]],
        deaths: Callable[[], int],
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_State(statuses, waiting, deaths))
        Info("lakestream_build", "Version.", registry=self._registry).info({"version": __version__})
        self._ticks = Counter("lakestream_ticks", "Ticks.", ["stream", "result"], registry=self._registry)
        self._seconds = Histogram(
            "lakestream_tick_duration_seconds",
            "Seconds of a tick.",
            ["stream"],
            buckets=_TICK_SECONDS,
            registry=self._registry,
        )

    def count(self, report: TickReport) -> None:
        """Count a tick."""
        self._ticks.labels(report.stream, "failed" if report.error else "done").inc()
        self._seconds.labels(report.stream).observe(report.seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _State(Collector):
    """Reads the state of the lake when Prometheus asks."""

    def __init__(
        self,
        statuses: Callable[[], Sequence[StreamStatus]],
        waiting: Callable[[], dict[str, int]],
        deaths: Callable[[], int],
    ) -> None:
        self._statuses = statuses
        self._waiting = waiting
        self._deaths = deaths

    def collect(self) -> Iterable[Metric]:
        statuses = self._statuses()
        yield self._by_status(statuses)
        yield self._status_of_each(statuses)
        yield from self._of_streams(statuses)
        waiting = GaugeMetricFamily(
            "lakestream_events_waiting", "Events that wait for a target.", labels=["target"]
        )
        for target, count in self._waiting().items():
            waiting.add_metric([target], count)
        yield waiting
        deaths = CounterMetricFamily("lakestream_spark_deaths", "How often Spark has died and was let go of.")
        deaths.add_metric([], self._deaths())
        yield deaths

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is follows from the lake."""
        return []

    def _by_status(self, statuses: Sequence[StreamStatus]) -> Metric:
        found = Tally(status.status for status in statuses)
        streams = GaugeMetricFamily("lakestream_streams", "Streams by status.", labels=["status"])
        for status in _STATUSES:
            streams.add_metric([status], found[status])
        return streams

    def _status_of_each(self, statuses: Sequence[StreamStatus]) -> Metric:
        each = GaugeMetricFamily(
            "lakestream_stream_status", "1 for the status that a stream has.", labels=["stream", "status"]
        )
        for stream in statuses:
            for status in _STATUSES:
                each.add_metric([f"{stream.database}.{stream.name}", status], stream.status == status)
        return each

    def _of_streams(self, statuses: Sequence[StreamStatus]) -> Iterable[Metric]:
        gauges: dict[str, tuple[str, Callable[[StreamStatus], float | None]]] = {
            "lakestream_lag_commits": ("Commits of the source still to take.", lambda s: s.lag),
            "lakestream_lag_seconds": ("Age of the oldest of them.", lambda s: s.lag_seconds),
            "lakestream_waiting_groups": ("Groups that wait.", lambda s: len(s.waiting_groups)),
            "lakestream_last_tick_timestamp_seconds": ("When the last tick ended, since 1970 UTC.", _ended),
            "lakestream_tick_begun_timestamp_seconds": ("Since when Spark computes a tick.", _begun),
            "lakestream_tick_queued_timestamp_seconds": ("Since when it waits for its turn.", _queued),
        }
        counters: dict[str, tuple[str, Callable[[StreamStatus], float]]] = {
            "lakestream_rows_in": ("Changed rows taken.", lambda s: s.rows_in),
            "lakestream_rows_out": ("Rows written.", lambda s: s.rows_out),
            "lakestream_rows_late": ("Late rows.", lambda s: s.late),
        }
        yield from _expectations(statuses)
        for name, (about, of) in gauges.items():
            yield _filled(GaugeMetricFamily(name, about, labels=["stream"]), statuses, of)
        for name, (about, of) in counters.items():
            yield _filled(CounterMetricFamily(name, about, labels=["stream"]), statuses, of)


def _ended(status: StreamStatus) -> float | None:
    return None if status.last_tick_us is None else status.last_tick_us / 1_000_000


def _begun(status: StreamStatus) -> float | None:
    return None if status.begun_us is None or status.waits_for_turn else status.begun_us / 1_000_000


def _queued(status: StreamStatus) -> float | None:
    return status.begun_us / 1_000_000 if status.begun_us is not None and status.waits_for_turn else None


def _expectations(statuses: Sequence[StreamStatus]) -> Iterable[Metric]:
    labels = ["stream", "expectation"]
    passed = CounterMetricFamily("lakestream_expectation_passed", "Rows that met it.", labels=labels)
    violated = CounterMetricFamily("lakestream_expectation_violated", "Rows that did not.", labels=labels)
    for status in statuses:
        for one in status.expectations:
            of = [f"{status.database}.{status.name}", one.name]
            passed.add_metric(of, one.passed)
            violated.add_metric(of, one.violated)
    return passed, violated


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily,
    statuses: Sequence[StreamStatus],
    of: Callable[[StreamStatus], float | None],
) -> Metric:
    for status in statuses:
        value = of(status)
        if value is not None:
            family.add_metric([f"{status.database}.{status.name}"], value)
    return family
