"""Functions of an event and those before it: as event by event, however events are cut into ticks."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from lakestream.storage.rows.views import view_of_rows
from lakestream.storage.small.session import SmallSession
from lakestream.triggers.analytic import FUNCTIONS, KEPT, Analytic, AnalyticFunction
from tests.reference import analytic as reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("k", "x", "y")
OF_ROW = ("_ls_ts", "_ls_v", "_ls_p", "_ls_c", "_ls_waited", "_ls_h")
TYPES = {"k": pa.string(), "x": pa.int32(), "y": pa.string(), "_ls_waited": pa.bool_()}
VALUES: list[tuple[str, reference.Value]] = [
    ("x", lambda event: event["x"]),
    ("x + 1", lambda event: None if event["x"] is None else event["x"] + 1),
]
CONDITIONS: list[tuple[str, reference.Value]] = [
    ("x > 3", lambda event: None if event["x"] is None else event["x"] > 3),
    ("x < 2", lambda event: None if event["x"] is None else event["x"] < 2),
    ("y = 'a'", lambda event: None if event["y"] is None else event["y"] == "a"),
]
KEYS: list[tuple[tuple[str, ...], reference.Value]] = [
    ((), lambda _event: ()),
    (("k",), lambda event: event["k"]),
    (("k", "y"), lambda event: (event["k"], event["y"])),
]


@dataclass
class Drawn:
    """Functions as SQL and in plain Python; later ones may look at the results of those before."""

    functions: list[AnalyticFunction]
    plain: list[reference.Function]

    def results(self, event: dict[str, Any]) -> list[Any]:
        """Return the results for the next event, by the column of each."""
        for function, plain in zip(self.functions, self.plain, strict=True):
            event[function.column] = plain(event)
        return [event[function.column] for function in self.functions]


def drawn(rng: random.Random) -> Drawn:
    found = Drawn([], [])
    values, conditions = list(VALUES), list(CONDITIONS)
    for number in range(1, rng.randint(2, 6)):
        name, column = rng.choice(sorted(FUNCTIONS)), f"_ls_f{number}"
        arguments = [rng.choice(values)]
        if name == "had_changed":
            arguments += [("y", lambda event: event["y"])] * rng.randint(0, 1)
        elif name.startswith("acc_") and rng.random() < 0.5:
            arguments += rng.sample(conditions, 2)
        elif name in ("lag", "latest") and rng.random() < 0.5:
            arguments.append(rng.choice([("7", lambda _event: 7), VALUES[0]]))
        (keys, key), (when, counts) = rng.choice(KEYS), rng.choice([("", lambda _event: True), *conditions])
        null, offset = rng.random() < 0.5 or name == "latest", rng.choice([1, 1, 2, 3])
        sql, plain = [one for one, _ in arguments], [one for _, one in arguments]
        found.functions.append(FUNCTIONS[name](column, tuple(sql), keys, when, null, offset))
        found.plain.append(reference.FUNCTIONS[name](tuple(plain), key, counts, null, offset))
        # The next ones may look at it.
        made = (column, lambda event, column=column: event[column])
        (conditions if name == "had_changed" else values).append(made)
    return found


def events(rng: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "k": rng.choice("pq"),
            "x": rng.choice([None, *range(6)]),
            "y": rng.choice([None, "a", "a", "b"]),
            "_ls_ts": number // 2,
            "_ls_v": 1,
            "_ls_p": number,
            "_ls_h": 0,
        }
        for number in range(count)
    ]


def table(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pa.Table:
    return pa.table({name: pa.array([r[name] for r in rows], TYPES.get(name, pa.int64())) for name in names})


@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_event_by_event_however_they_are_cut(seed: int) -> None:
    rng, session = random.Random(seed), SmallSession()
    made = drawn(rng)
    analytic = Analytic(tuple(made.functions))
    known: pa.Table | None = None
    rows, tick = events(rng, 40), 0
    while rows:
        tick, count = tick + 1, rng.choice([1, 1, 2, 5, 20])
        came, rows = rows[:count], rows[count:]
        for event in came:
            event |= {"_ls_c": tick, "_ls_waited": True}
        given = table(came, (*COLUMNS, *OF_ROW))
        if known is not None:
            kinds = {field.name: field.type for field in known.schema}
            for name in analytic.columns:
                given = given.append_column(name, pa.nulls(len(came), kinds[name]))
            given = pa.concat_tables([known.select(given.column_names), given])
        view_of_rows(cast("SparkSession", session), given, "events")
        remembers = known is not None
        all_there = "SELECT *, true AS _ls_touched FROM events"
        touched = analytic.touched("SELECT * FROM events", "_ls_waited") if remembers else all_there
        needed = f"SELECT * FROM ({touched}) WHERE _ls_touched"
        sql = analytic.sql(needed, (*COLUMNS, *OF_ROW), remembers=remembers)
        found = session.sql(f"SELECT * FROM ({sql}) ORDER BY _ls_waited, _ls_p").toArrow()
        now = found.filter(found["_ls_waited"]).select(analytic.results).to_pylist()
        assert [[*one.values()] for one in now] == [made.results(event) for event in came]
        known = found.filter(found[KEPT]).drop_columns([KEPT])
        if remembers:
            others = session.sql(f"SELECT * FROM ({touched}) WHERE NOT _ls_touched").toArrow()
            known = pa.concat_tables([known, others.select(known.column_names)])
        waited = known.schema.get_field_index("_ls_waited")
        known = known.set_column(waited, "_ls_waited", pa.array([False] * len(known), pa.bool_()))


def test_what_is_kept_does_not_grow_with_the_events() -> None:
    session = SmallSession()
    functions = (
        FUNCTIONS["lag"]("_ls_f1", ("x", "x"), ("k",), "", False, 3),
        FUNCTIONS["acc_avg"]("_ls_f2", ("x",), ("k",)),
        FUNCTIONS["had_changed"]("_ls_f3", ("x", "y"), ("k",)),
    )
    rows = [event | {"_ls_c": 1, "_ls_waited": True} for event in events(random.Random(1), 1_000)]
    view_of_rows(cast("SparkSession", session), table(rows, (*COLUMNS, *OF_ROW)), "events")
    sql = Analytic(functions).sql("SELECT * FROM events", (*COLUMNS, *OF_ROW), remembers=False)
    kept = session.sql(f"SELECT count(*) AS n FROM ({sql}) WHERE {KEPT}").toArrow()["n"][0].as_py()
    assert kept <= 2 * (1 + 3 + 1 + 2)
