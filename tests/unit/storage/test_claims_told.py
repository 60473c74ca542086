"""What is waited for is told, where it takes longer than a moment."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from lakestream.storage.places.claims import try_claim, wait_for_claim
from lakestream.storage.places.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.clock import Clock
    from lakestream.storage.places.claims import Claim


class Passing:
    """A clock on which a claim is given back at a time."""

    def __init__(self, held: Claim, until: float) -> None:
        self.now, self.held, self.until = 0.0, held, until

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if before < self.until <= self.now:
            self.held.release()


@pytest.mark.parametrize(("until", "is_told"), [(0.5, False), (3.0, True)])
def test_who_waits_for_long_is_told_what_for(tmp_path: Path, until: float, *, is_told: bool) -> None:
    layout, told = Layout(str(tmp_path)), list[str]()
    Path(layout.system_root, "claims").mkdir(parents=True)
    held = try_claim(layout, "a1")
    assert held is not None

    @contextmanager
    def tell(what: str) -> Iterator[None]:
        told.append(what)
        yield
        told.append("done")

    clock = cast("Clock", Passing(held, until))
    wait_for_claim(layout, "a1", "main.s", wait_seconds=10, clock=clock, told=tell).release()
    assert [line.partition(": ")[0] for line in told] == ["waiting for main.s", "done"] * is_told
