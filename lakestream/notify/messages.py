"""Messages: the events of one commit of the outbox in texts of bounded size, always the same ones.

The cuts between messages follow from the batch alone. So a message that is sent again, by whichever
process, has the id and the text that it had before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

MAX_EVENTS = 1_000
MAX_BYTES = 256 * 1024
"""Size of the events of a message; a larger event goes by itself, up to ``MAX_EVENT_BYTES``."""

MAX_EVENT_BYTES = 900 * 1024
"""A peer takes messages of 1 MiB by default: what is larger would break the connection for ever."""


@dataclass(frozen=True)
class Message:
    """One message: its id, its text (None for an event that is too large to be sent).

    It holds the events ``first`` to ``last`` of its batch.
    """

    id: str
    first: int
    last: int
    text: str | None

    @property
    def events(self) -> int:
        """How many events it holds."""
        return self.last - self.first + 1


def messages(events: pa.Table, app: str, number: int) -> Iterator[Message]:
    """Yield the messages of a batch: ``events`` in order (stream, event_time, event), of a commit's id.

    ``timestamp`` is the time of the first event in milliseconds, so that it never changes either.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not events.num_rows:
        return
    sizes = pc.binary_length(events["event"]).to_pylist()
    times = events["event_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    name = json.dumps(events["stream"][0].as_py())
    for first, end in cuts(sizes):
        identity = str(uuid5(NAMESPACE_URL, f"{app}:{number}:{first}"))
        if end - first == 1 and sizes[first] > MAX_EVENT_BYTES:
            yield Message(identity, first, first, None)
            continue
        listed = ",".join(events["event"].slice(first, end - first).to_pylist())
        streams = f'[{{"streamName":{name},"events":[{listed}]}}]'
        head = f'{{"messageId":"{identity}","timestamp":{times[first].as_py()}'
        yield Message(identity, first, end - 1, f'{head},"streams":{streams}}}')


def cuts(sizes: list[int]) -> list[tuple[int, int]]:
    """Return the ranges [first, end) of messages over events of these sizes in bytes.

    >>> cuts([100_000, 100_000, 100_000, 2_000_000, 5])
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ranges: list[tuple[int, int]] = []
    first = total = 0
    for at, size in enumerate(sizes):
        if at > first and (total + size > MAX_BYTES or at - first >= MAX_EVENTS):
            ranges.append((first, at))
            first, total = at, 0
        total += size
    return [*ranges, (first, len(sizes))] if sizes else []
