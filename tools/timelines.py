"""Draw the timelines of docs/timelines: every kind of trigger, from a real run of it over a few rows.

``python -m tools.timelines`` draws them anew; a test holds that the pictures are what it draws. Each scene
runs in a fresh lake without Spark: its rows come one commit at a time, and after each one the stream is run
and its output is looked at, so that the picture says with which row a window fires, and fires again.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from lakestream import Lake
from lakestream.clock import ManualClock
from lakestream.errors import StatementError
from lakestream.settings import Settings
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[1] / "docs" / "timelines"
START = datetime(2025, 1, 1, 8, tzinfo=UTC)

WIDTH, LEFT, RIGHT = 760, 24, 250
ROWS_Y, FIRST_LANE, LANE = 74, 122, 30
INK, MUTED, LINE, ROW, FIRED, AGAIN = "#1b2327", "#5b676e", "#dde2e5", "#1b2327", "#14808f", "#c2571a"
WINDOW = "SELECT _twstart AS since, _twend AS until, count(*) AS n FROM %%trows"


@dataclass(frozen=True)
class Scene:
    """A stream and its rows: when each one's event is, in seconds from the start, and its value.

    ``bounds`` are the ends of a window: ``[`` and ``]`` belong to it, ``(`` and ``)`` do not. ``ticks`` is
    how far the lines of the axis stand apart, from ``origin`` on, ``shown`` how they are written. Where
    ``clock`` is set, the wall clock goes on with the rows, and to the end of the axis after them.
    """

    trigger: str
    rows: tuple[tuple[float, float | None], ...]
    bounds: str = "[)"
    query: str = WINDOW
    options: str = ""
    origin: float = 0
    ticks: float = 10
    shown: str = "%M:%S"
    end: float = 60
    clock: bool = False


@dataclass
class Drawn:
    """A window as it was seen: the rows that it was counted with, and with which row each time."""

    since: float
    until: float
    seen: list[tuple[int, int]] = field(default_factory=list)


def _plain(*seconds: float) -> tuple[tuple[float, None], ...]:
    return tuple((second, None) for second in seconds)


DAY = 86_400.0
SCENES = {
    "interval": Scene("INTERVAL(20s) SLIDING(20s)", _plain(4, 11, 23, 38, 41, 61), end=70),
    "overlapping": Scene("INTERVAL(20s) SLIDING(10s)", _plain(4, 13, 21, 34), origin=-10, end=50),
    "calendar": Scene(
        "CALENDAR(WEEK FROM SUNDAY)",
        _plain(1 * DAY, 3 * DAY, 6 * DAY, 13 * DAY, 19 * DAY),
        origin=-3 * DAY - 8 * 3600,
        ticks=7 * DAY,
        shown="%d %b",
        end=22 * DAY,
    ),
    "sliding": Scene(
        "SLIDING(20s)",
        _plain(4, 20, 23, 38, 55, 60),
        "(]",
        "SELECT _tprev_ts AS since, _tcurrent_ts AS until, count(*) AS n FROM %%trows",
        end=70,
    ),
    "session": Scene("SESSION(ts, 10s)", _plain(3, 9, 19, 36, 41, 56), "[]"),
    "state": Scene("STATE_WINDOW(v)", ((3, 0), (10, 1), (17, 1), (27, 1), (36, 0), (45, 0), (54, 1)), "[]"),
    "event": Scene(
        "EVENT_WINDOW(START WITH v > 8 END WITH v < 5)",
        ((3, 6), (10, 9), (18, 9), (27, 4), (35, 9), (44, 7), (52, 3)),
        "[]",
    ),
    "count": Scene("COUNT_WINDOW(3)", _plain(4, 9, 22, 27, 36, 51, 55), "[]"),
    "period": Scene(
        "PERIOD(20s)",
        _plain(4, 13, 26, 47),
        "(]",
        "SELECT cast(_tprev_localtime / 1000000 AS TIMESTAMP) AS since, "
        "cast(_tlocaltime / 1000000 AS TIMESTAMP) AS until, count(*) AS n FROM %%trows",
        end=62,
        clock=True,
    ),
    "watermark": Scene(
        "INTERVAL(20s) SLIDING(20s)", _plain(4, 16, 24, 12, 31, 43, 52), options="WATERMARK(10s)"
    ),
    "late": Scene("INTERVAL(20s) SLIDING(20s)", _plain(4, 11, 23, 41, 16, 52)),
}
"""By the name of the picture."""


def windows_of(scene: Scene) -> list[Drawn]:
    """Run a scene and return its windows, by their start, as they came and changed."""
    clock = ManualClock(START)
    found: dict[tuple[float, float], Drawn] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        without_spark(),
        Lake(folder, clock=clock, settings=Settings()) as lake,
    ):
        options = f"STREAM_OPTIONS({scene.options})" if scene.options else ""
        kind = "INT" if scene.trigger.startswith("STATE") else "DOUBLE"
        lake.sql(f"CREATE TABLE t (ts TIMESTAMP, v {kind})")
        lake.sql(f"CREATE STREAM s {scene.trigger} FROM t {options} INTO o AS {scene.query}")
        for number, (second, value) in enumerate(scene.rows, 1):
            if scene.clock:
                clock.advance(START + timedelta(seconds=second) - clock.now())
                lake.run()
                _look(lake, found, number - 1)
            at = START + timedelta(seconds=second)
            lake.insert("t", [{"ts": at, "v": value}])
            lake.run()
            _look(lake, found, number)
        if scene.clock:
            clock.advance(START + timedelta(seconds=scene.end) - clock.now())
            lake.run()
            _look(lake, found, len(scene.rows))
    return [found[window] for window in sorted(found)]


def _look(lake: Lake, found: dict[tuple[float, float], Drawn], row: int) -> None:
    """Note the windows of the output that are new or others than before."""
    try:
        rows = lake.sql("SELECT since, until, n FROM o").fetchall()
    except StatementError:  # the output is made with its first row
        return
    for since, until, n in rows:
        ends = (_seconds(since), _seconds(until))
        window = found.setdefault(ends, Drawn(*ends))
        if not window.seen or window.seen[-1][0] != n:
            window.seen.append((n, row))


def _seconds(at: datetime) -> float:
    return (at - START).total_seconds()


def draw(scene: Scene) -> str:
    """Run a scene and return its picture as SVG."""
    windows = windows_of(scene)
    height = FIRST_LANE + LANE * len(windows) + 8
    options = f" STREAM_OPTIONS({scene.options})" if scene.options else ""
    label = escape(f"{scene.trigger}{options}: rows and the windows that they fire")
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    look = 'role="img" font-family="system-ui, sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {look}>',
        f"<title>{label}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(LEFT, 24, f"{scene.trigger}{options}", INK, 'font-family="ui-monospace, monospace"'),
        *_axis(scene, height),
        *_dots(scene),
    ]
    for lane, window in enumerate(windows):
        parts += _window(scene, window, FIRST_LANE + LANE * lane)
    return "\n".join([*parts, "</svg>", ""])


def _x(scene: Scene, second: float) -> float:
    first = scene.origin - scene.ticks * 0.4
    return round(LEFT + (second - first) / (scene.end - first) * (WIDTH - LEFT - RIGHT), 1)


def _text(x: float, y: float, text: str, color: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" fill="{color}" {more}>{escape(text)}</text>'


def _axis(scene: Scene, height: int) -> Iterator[str]:
    second = scene.origin
    while second <= scene.end:
        x = _x(scene, second)
        yield f'<line x1="{x}" y1="46" x2="{x}" y2="{height - 8}" stroke="{LINE}"/>'
        shown = (START + timedelta(seconds=second)).strftime(scene.shown)
        yield _text(x, 42, shown, MUTED, 'text-anchor="middle" font-size="11"')
        second += scene.ticks


def _dots(scene: Scene) -> Iterator[str]:
    newest = -1.0
    for number, (second, value) in enumerate(scene.rows, 1):
        x = _x(scene, second)
        color = AGAIN if second < newest else ROW
        newest = max(newest, second)
        yield f'<circle cx="{x}" cy="{ROWS_Y}" r="4.5" fill="{color}"/>'
        yield _text(x, ROWS_Y - 9, str(number), color, 'text-anchor="middle" font-size="11"')
        if value is not None:
            yield _text(x, ROWS_Y + 20, f"{value:g}", MUTED, 'text-anchor="middle" font-size="11"')
    where = "rows, when they come" if scene.clock else "rows, numbered as they come"
    yield _text(WIDTH - RIGHT + 12, ROWS_Y + 4, where, MUTED, 'font-size="11"')


def _window(scene: Scene, window: Drawn, y: int) -> Iterator[str]:
    begin, end = _x(scene, window.since), _x(scene, window.until)
    size = f'width="{round(max(end - begin, 2), 1)}" height="14"'
    yield f'<rect x="{begin}" y="{y}" {size} rx="3" fill="{FIRED}" opacity="0.25"/>'
    for x, bound in ((begin, scene.bounds[0]), (end, scene.bounds[1])):
        fill = FIRED if bound in "[]" else "#ffffff"
        yield f'<circle cx="{x}" cy="{y + 7}" r="3.5" fill="{fill}" stroke="{FIRED}"/>'
    for time, (_, row) in enumerate(() if scene.clock else window.seen):
        x, color = _x(scene, scene.rows[row - 1][0]), AGAIN if time else FIRED
        if x > end:
            dashes = f'x1="{end + 4}" x2="{x}" stroke="{color}" stroke-dasharray="2 3"'
            yield f'<line y1="{y + 7}" y2="{y + 7}" {dashes}/>'
        yield f'<circle cx="{x}" cy="{y + 7}" r="2.5" fill="{color}"/>'
        yield f'<line x1="{x}" y1="{ROWS_Y + 7}" x2="{x}" y2="{y + 3}" stroke="{color}" opacity="0.25"/>'
    yield f'<text x="{WIDTH - RIGHT + 12}" y="{y + 11}" font-size="12">{_words(scene, window)}</text>'


def _words(scene: Scene, window: Drawn) -> str:
    spans = []
    for time, (n, row) in enumerate(window.seen):
        by = "by the clock" if scene.clock else f"with row {row}"
        spans.append(f'<tspan fill="{AGAIN if time else FIRED}">n = {n} {by}</tspan>')
    return ", ".join(spans)


def main() -> None:
    """Draw all scenes into docs/timelines."""
    FOLDER.mkdir(exist_ok=True)
    for name, scene in SCENES.items():
        (FOLDER / f"{name}.svg").write_text(draw(scene), encoding="utf-8")


if __name__ == "__main__":
    main()
