"""Messages in odd orders: answered as PostgreSQL answers them, and the connection goes on where its does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.server.messages import FILLED, TABLE, answer_of, drawn_messages, in_short, kept
from tests.unit.server.test_postgres import Served, lake_served

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lake_served(str(tmp_path_factory.mktemp("odd") / "lake"), f"{TABLE}; {FILLED}") as served:
        yield served


def test_messages_in_odd_orders_are_answered_as_postgresql_answers_them(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    expected = kept()
    found = [in_short(answer_of(served.port, drawn_messages(seed), "main")) for seed in range(len(expected))]
    assert found == expected
    assert not caplog.records
