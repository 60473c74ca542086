"""A run of some streams, as a task of a scheduler: what each did, and what stopped it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lakestream.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakestream.lake import Lake


@dataclass
class Ran:
    """What a run did for a stream; ``seconds`` are its ticks', ``error`` is why it does not go on."""

    ticks: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    error: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return asdict(self)


def run_streams(lake: Lake, streams: Sequence[str] | None = None) -> dict[str, Ran]:
    """Take all that is new for streams (names; None: all of the lake), and return what each did.

    Names of the result are those in full. Raises StatementError STREAM_NOT_FOUND.
    """
    summary = lake.run(streams=streams)
    wanted = (
        None if streams is None else {name if "." in name else f"{lake.database}.{name}" for name in streams}
    )
    known = {f"{one.database}.{one.name}": one for one in lake.streams()}
    ran = {name: Ran() for name in known if wanted is None or name in wanted}
    for tick in summary.ticks:
        one = ran.setdefault(tick.stream, Ran())
        one.ticks += 1
        one.rows_in += tick.rows_in
        one.rows_out += tick.rows_out
        one.seconds += tick.seconds
    for name, one in ran.items():
        if name in known and known[name].is_failing:
            one.error = known[name].last_error
    return ran


def refuse_failed(ran: Iterable[tuple[str, Ran]]) -> None:
    """Raise StreamError STREAM_FAILED where a stream of a run does not go on."""
    failed = [f"{name}: {one.error}" for name, one in ran if one.error is not None]
    if failed:
        raise StreamError(
            "STREAM_FAILED", "; ".join(failed), hint="remove the cause, then START STREAM and run again"
        )
