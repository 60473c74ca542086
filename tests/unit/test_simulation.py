"""Some simulated steps of each kind, and what a simulation must not let pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from lakestream.notify.dispatcher import Dispatcher
from lakestream.scheduler.alarms import Alarms
from lakestream.storage.places.leases import Leases
from tests.simulation.__main__ import KINDS, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

DEFECTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "leases": (Leases, "_lasts", lambda _: True),
    "rounds": (Alarms, "set", lambda *_: None),
    "outbox": (Dispatcher, "_new", lambda self: self._outbox.since(self._seen or 0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_must_hold_does(kind: str) -> None:
    assert simulate(kind, "1", steps=300).steps >= 300


def test_a_seed_gives_the_same_run_again() -> None:
    runs = [simulate("leases", "7", steps=300) for _ in range(2)]
    assert runs[0].seconds == runs[1].seconds
    assert runs[0].steps == runs[1].steps


@pytest.mark.parametrize("kind", DEFECTS)
def test_a_defect_is_found(kind: str) -> None:
    of, name, instead = DEFECTS[kind]
    with patch.object(of, name, instead), pytest.raises(AssertionError):
        [simulate(kind, f"{number}", steps=300) for number in range(10)]
