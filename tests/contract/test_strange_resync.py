"""The way out of too many windows, for streams that judge rows as they come: RESYNC, whenever it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.test_strange_rows import FIRST, STRANGE, THEN, expected, story

if TYPE_CHECKING:
    from tests.contract.test_strange_rows import Story

pytestmark = pytest.mark.spark
__all__ = ["story"]


@pytest.mark.parametrize("name", ["the last second", "the first year"])
def test_a_resynchronisation_leads_back_also_after_one_that_came_too_early(story: Story, name: str) -> None:
    lake = story.lake
    story.begin([])
    lake.sql(
        "CREATE STREAM every INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY g STREAM_OPTIONS(FILL_HISTORY) "
        "INTO o_every AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
    )
    story.run()
    story.append([STRANGE[name]])
    for _ in range(2):
        story.run()
        [status] = lake.streams()
        assert (status.status, status.last_error, status.recalculating) == ("Running", None, None)
        assert [group.partition(":")[0] for group in status.waiting_groups] == ["g = 1"]
        lake.sql("RECALCULATE STREAM every RESYNC")
    story.run()
    story.append(THEN)
    story.delete_strange()
    lake.sql("RECALCULATE STREAM every RESYNC")
    story.run()
    [status] = lake.streams()
    assert (status.status, status.last_error, status.recalculating) == ("Running", None, None)
    assert status.waiting_groups == ()
    assert lake.verify("every").holds
    assert story.found("every", "n > 0") == expected("tumbling", [*FIRST, *THEN], (1, 2))
