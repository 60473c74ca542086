"""The dimensions of a stream and of its history: a table of their values, and combinations of them.

A combination is one value of each dimension. :func:`sentence` and :func:`stream` say what it is to
lakestream and to the reference; :func:`draw` draws one that nobody would call nonsense.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import ceil
from random import Random
from typing import TYPE_CHECKING

from tests.reference.aggregates import AGGREGATES
from tests.reference.refused import refused
from tests.reference.stream import (
    Count,
    EachRow,
    Event,
    Grid,
    Instants,
    Period,
    Session,
    State,
    Stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.reference.stream import Figures, Group, Row, Trigger

Pair = tuple[tuple[str, str], tuple[str, str]]

OF_HISTORIES: dict[str, tuple[str, ...]] = {
    "arrival": ("in order", "equal times", "out of order", "late"),
    "change": ("none", "rewrite", "update", "move", "delete"),
    "key": ("time", "composite"),
    "process": ("steady", "restarts", "by spark", "many commits", "crashes"),
}
_NEW_POLICIES = (
    "default",
    "ignore disorder",
    "expired time",
    "delete recalc",
    "expired and deletes",
    "exact",
)

OF_STREAMS: dict[str, tuple[str, ...]] = {
    "syntax": ("new", "classic"),
    "trigger": (
        "tumbling",
        "hopping",
        "gaps",
        "sliding",
        "session",
        "state",
        "reaching states",
        "event",
        "count",
        "sliding count",
        "count by one",
        "period",
        "each row",
    ),
    "emission": (
        "close",
        "open",
        "open and close",
        "at once",
        "max delay",
        "by the clock",
        "periodic",
    ),
    "watermark": ("0s", "4s"),
    "policy": (
        *_NEW_POLICIES,
        "ignore 00",
        "ignore 01",
        "ignore 10",
        "ignore 11",
        "delete mark",
    ),
    "source": ("super", "child", "plain", "nested"),
    "groups": ("none", "table", "tag", "expression", "table and tag"),
    "filter": ("none", "some"),
    "empty windows": ("kept", "dropped"),
    "fill": ("none", "NULL", "VALUE", "PREV"),
    "history": ("none", "filled"),
    "output": ("new", "subtable", "existing"),
    "figures": ("combined", "ends", "whole", "scalars", "functions"),
}
DIMENSIONS = {**OF_HISTORIES, **OF_STREAMS}

NEW_ALONE = {
    "trigger": ("sliding", "period"),
    "emission": ("open", "open and close"),
    "policy": _NEW_POLICIES,
    "empty windows": ("kept",),
}
CLASSIC_ALONE = {
    "trigger": ("each row",),
    "emission": ("at once", "by the clock", "periodic"),
    "policy": ("ignore 00", "ignore 01", "ignore 10", "ignore 11", "delete mark"),
    "fill": ("NULL", "VALUE", "PREV"),
}
"""What only one of the two syntaxes can say."""


@dataclass(frozen=True)
class Combination:
    """One value of each dimension."""

    of: Mapping[str, str]

    @property
    def refused(self) -> str | None:
        """Why it is refused."""
        return refused(self.of)

    @property
    def pairs(self) -> frozenset[Pair]:
        """All pairs of its values."""
        return frozenset(combinations(sorted(self.of.items()), 2))

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.of.items())


def can_be_said(of: Mapping[str, str]) -> bool:
    """Return whether there is a sentence for the values."""
    alone = CLASSIC_ALONE if of["syntax"] == "new" else NEW_ALONE
    if any(of[name] in values for name, values in alone.items()):
        return False
    if of["source"] == "nested" and of["policy"] != "exact":
        return False  # what else it took depends on the ticks of the stream before it
    return not (of["trigger"] == "each row" and (of["emission"] != "close" or of["groups"] == "expression"))


def draw(random: Random, given: Mapping[str, str]) -> Combination:
    """Draw a combination that has the given values."""
    while True:
        of = {name: given.get(name) or random.choice(values) for name, values in DIMENSIONS.items()}
        if can_be_said(of):
            return Combination(of)


def covering(
    random: Random, each: int, tries: int = 80
) -> Iterator[tuple[dict[str, str], list[Combination]]]:
    """Yield histories with as many streams each, chosen to have the most pairs not had before.

    A refused combination has only the pairs that are refused everywhere.
    """
    missing = set(possible())
    while True:
        aimed = dict(random.choice(sorted(missing))) if missing else {}
        history = {name: aimed.get(name) or random.choice(values) for name, values in OF_HISTORIES.items()}
        chosen: list[Combination] = []
        for _ in range(each):
            drawn = [draw(random, history) for _ in range(tries)]
            drawn += [draw(random, {**pair, **history}) for pair in _aims(random, missing, history, tries)]
            chosen.append(max(drawn, key=lambda of: len(covered(of) & missing)))
            missing -= covered(chosen[-1])
        yield history, chosen


def _aims(
    random: Random, missing: set[Pair], history: Mapping[str, str], tries: int
) -> Iterator[dict[str, str]]:
    """Yield some of the missing pairs that a history can have."""
    fitting = [
        dict(pair)
        for pair in sorted(missing)
        if all(history.get(name, value) == value for name, value in pair)
    ]
    yield from random.sample(fitting, min(tries, len(fitting)))


def covered(of: Combination) -> frozenset[Pair]:
    """Return the pairs that a combination tries: of a refused one those that are refused everywhere."""
    return of.pairs if of.refused is None else of.pairs - accepted()


@cache
def _drawn() -> tuple[Combination, ...]:
    """Return very many combinations."""
    random = Random("pairs")
    return tuple(draw(random, {}) for _ in range(8_000))


@cache
def accepted() -> frozenset[Pair]:
    """Return the pairs that some combination has that is not refused."""
    return frozenset(pair for of in _drawn() if of.refused is None for pair in of.pairs)


@cache
def possible() -> frozenset[Pair]:
    """Return all pairs that some combination has."""
    return frozenset(pair for of in _drawn() for pair in of.pairs)


# --- as a sentence -------------------------------------------------------------------------------

TRIGGERS: dict[str, tuple[str, Trigger]] = {
    "tumbling": ("INTERVAL(10s) SLIDING(10s)", Grid(10, 10)),
    "hopping": ("INTERVAL(10s) SLIDING(4s)", Grid(10, 4)),
    "gaps": ("INTERVAL(4s) SLIDING(10s)", Grid(4, 10)),
    "sliding": ("SLIDING(6s)", Instants(6)),
    "session": ("SESSION(ts, 4s)", Session(4)),
    "state": ("STATE_WINDOW(v)", State()),
    "reaching states": ("STATE_WINDOW(v, v % 2) EXTEND(2) ZEROTH_STATE(2, NO_ZEROTH)", State(2, 2)),
    "event": ("EVENT_WINDOW(START WITH v = 1 END WITH v = 2)", Event()),
    "count": ("COUNT_WINDOW(3)", Count(3, 3)),
    "sliding count": ("COUNT_WINDOW(4, 2)", Count(4, 2)),
    "count by one": ("COUNT_WINDOW(3, 1)", Count(3, 1)),
    "period": ("PERIOD(20s)", Period(20)),
    "each row": ("", EachRow()),
}
GROUPS: dict[str, tuple[tuple[tuple[str, str, str], ...], Callable[[Row], Group]]] = {
    "none": ((), lambda _row: ()),
    "table": ((("tbname", "tag_tbname", "VARCHAR(20)"),), lambda row: (row["tbname"],)),
    "tag": ((("loc", "place", "VARCHAR(16)"),), lambda row: (row["loc"],)),
    "expression": ((("v % 2", "parity", "INT"),), lambda row: (None if row["v"] is None else row["v"] % 2,)),
    "table and tag": (
        (("tbname", "tag_tbname", "VARCHAR(20)"), ("loc", "place", "VARCHAR(16)")),
        lambda row: (row["tbname"], row["loc"]),
    ),
}
"""What PARTITION BY takes: expression, name, type; and the group of a row."""

FIGURES: dict[str, tuple[tuple[str, str], ...]] = {
    "combined": (("count", "*"), ("count", "v"), ("sum", "v"), ("min", "v"), ("max", "x"), ("avg", "x")),
    "ends": (("count", "*"), ("first", "v"), ("last", "v"), ("first", "x"), ("last", "x")),
    "whole": (("count", "*"), ("count distinct", "v"), ("first", "v"), ("sum", "x")),
    "scalars": (("count", "*"), ("sum", "abs(x)"), ("max", "v + 1"), ("min", "v * v")),
    "functions": (("count", "*"), ("spread", "v"), ("hyperloglog", "v"), ("stddev", "x"), ("last_row", "v")),
}
ROW_BY_ROW: dict[str, tuple[str, ...]] = {
    "combined": ("v", "x"),
    "ends": ("x", "v"),
    "whole": ("v + 1", "x"),
    "scalars": ("abs(x)", "v * v"),
    "functions": ("mod(v, 2)", "ceil(x)"),
}
EXPRESSIONS: dict[str, Callable[[Row], object]] = {
    "v": lambda row: row["v"],
    "x": lambda row: row["x"],
    "abs(x)": lambda row: None if row["x"] is None else abs(row["x"]),
    "v + 1": lambda row: None if row["v"] is None else row["v"] + 1,
    "v * v": lambda row: None if row["v"] is None else row["v"] * row["v"],
    "mod(v, 2)": lambda row: None if row["v"] is None else row["v"] % 2,
    "ceil(x)": lambda row: None if row["x"] is None else ceil(row["x"]),
}
SOURCES = {"super": "meters", "child": "t1", "plain": "plain", "nested": "mid"}
LATEST, DELAY, EVERY = 4, 5, 10
SEPARATOR = ", '_', "
NEVER = "'1970-01-02'"


def sentence(of: Mapping[str, str], name: str, output: str) -> str:
    """Return the CREATE STREAM."""
    return _new(of, name, output) if of["syntax"] == "new" else _classic(of, name, output)


def columns_of(of: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the figures."""
    listed = ROW_BY_ROW if of["trigger"] == "each row" else FIGURES
    return tuple(f"f{n}" for n in range(len(listed[of["figures"]])))


def output_columns(of: Mapping[str, str]) -> tuple[str, ...]:
    """Return the output's columns in the order of the reference."""
    groups = tuple(alias for _, alias, _ in GROUPS[of["groups"]][0])
    times = ("ts_start",) if of["trigger"] in ("each row", "period") else ("ts_start", "ts_end")
    subtable = ("tbname",) if of["output"] == "subtable" else ()
    return (*subtable, *groups, *times, *columns_of(of))


def _aggregates(of: Mapping[str, str]) -> list[str]:
    written = {"count distinct": "count(DISTINCT {})"}
    return [written.get(name, f"{name}({{}})").format(column) for name, column in FIGURES[of["figures"]]]


def _is_early(of: Mapping[str, str]) -> bool:
    return of["emission"] in ("open", "open and close")


def _subtable(names: list[str]) -> str:
    return f"concat('out_', {SEPARATOR.join(names)})"


def _new(of: Mapping[str, str], name: str, output: str) -> str:
    keys = GROUPS[of["groups"]][0]
    partition = ", ".join(e if e == "tbname" else f"{e} AS {alias}" for e, alias, _ in keys)
    options = " | ".join(_options(of))
    aggregates = ", ".join(_aggregates(of))
    subtable = _subtable([f"%%{n}" for n, _ in enumerate(keys, 1)])
    names = ["ts_start", *(["ts_end"] * (of["trigger"] != "period")), *columns_of(of)]
    times = {
        "sliding": "_tcurrent_ts, _tprev_ts",
        "period": "CAST(_tlocaltime / 1000000 AS TIMESTAMP)",
    }.get(of["trigger"], "_twstart, _twend")
    table = SOURCES[of["source"]]
    other = "meters" if table == "plain" else "plain"  # what EXACT does not follow
    rows = f"{other} WHERE ts < {NEVER}" if _is_early(of) else "%%trows"
    return (
        f"CREATE STREAM {name} {TRIGGERS[of['trigger']][0]} FROM {table} "
        + (f"PARTITION BY {partition} " if keys else "")
        + (f"STREAM_OPTIONS({options}) " if options else "")
        + f"INTO {output} "
        + (f"OUTPUT_SUBTABLE({subtable}) " if of["output"] == "subtable" else "")
        + f"({', '.join(_in_order(of, names))}) AS SELECT {times}, {aggregates} FROM {rows}"
    )


def _in_order(of: Mapping[str, str], names: list[str]) -> list[str]:
    """SLIDING's end comes first: it names the window."""
    return ["ts_end", "ts_start", *names[2:]] if of["trigger"] == "sliding" else names


def _options(of: Mapping[str, str]) -> list[str]:
    policy = {
        "default": (),
        "ignore disorder": ("IGNORE_DISORDER",),
        "expired time": ("EXPIRED_TIME(8s)",),
        "delete recalc": ("DELETE_RECALC",),
        "expired and deletes": ("EXPIRED_TIME(8s)", "DELETE_RECALC"),
        "exact": ("EXACT",),
    }[of["policy"]]
    emission = {
        "open": ("EVENT_TYPE(WINDOW_OPEN)",),
        "open and close": ("EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)",),
        "max delay": (f"MAX_DELAY({DELAY}s)",),
    }.get(of["emission"], ())
    return [
        *policy,
        *emission,
        *[f"WATERMARK({of['watermark']})"] * (of["watermark"] != "0s"),
        *["PRE_FILTER(x > 0)"] * (of["filter"] == "some"),
        *["IGNORE_NODATA_TRIGGER"] * (of["empty windows"] == "dropped"),
        *["FILL_HISTORY"] * (of["history"] == "filled"),
    ]


def _ignored(policy: str) -> tuple[str, str]:
    """Return IGNORE EXPIRED and IGNORE UPDATE."""
    numbers = policy[-2:] if policy.startswith("ignore ") and policy != "ignore disorder" else "00"
    return numbers[0], numbers[1]


def _classic(of: Mapping[str, str], name: str, output: str) -> str:
    keys = GROUPS[of["groups"]][0]
    mode = {
        "close": "",
        "at once": "TRIGGER AT_ONCE ",
        "max delay": f"TRIGGER MAX_DELAY {DELAY}s ",
        "by the clock": "TRIGGER FORCE_WINDOW_CLOSE ",
        "periodic": f"TRIGGER CONTINUOUS_WINDOW_CLOSE RECALCULATE {EVERY}s ",
    }[of["emission"]]
    expired, update = _ignored(of["policy"])
    fill = {"none": "", "VALUE": f" FILL(VALUE, {', '.join('7' for _ in columns_of(of))})"}
    if of["trigger"] == "each row":
        listed = "ts AS ts_start, " + ", ".join(
            f"{text} AS f{n}" for n, text in enumerate(ROW_BY_ROW[of["figures"]])
        )
    else:
        listed = "_wstart AS ts_start, _wend AS ts_end, " + ", ".join(
            f"{text} AS f{n}" for n, text in enumerate(_aggregates(of))
        )
    clause = TRIGGERS[of["trigger"]][0]
    if of["trigger"] == "event":
        clause = "EVENT_WINDOW START WITH v = 1 END WITH v = 2"
    if of["trigger"] == "tumbling":
        clause = "INTERVAL(10s)"
    partition = ", ".join(f"{expression} AS {alias}" for expression, alias, _ in keys)
    kinds = "" if of["output"] == "existing" else None
    tags = ", ".join(alias if kinds == "" else f"{alias} {kind}" for _, alias, kind in keys)
    return (
        f"CREATE STREAM {name} {mode}"
        + (f"WATERMARK {of['watermark']} " if of["watermark"] != "0s" else "")
        + f"IGNORE EXPIRED {expired} IGNORE UPDATE {update} "
        + ("DELETE_MARK 8s " if of["policy"] == "delete mark" else "")
        + ("FILL_HISTORY 1 " if of["history"] == "filled" else "")
        + f"INTO {output} "
        + (f"TAGS ({tags}) " if keys else "")
        + (f"SUBTABLE({_subtable([alias for _, alias, _ in keys])}) " if of["output"] == "subtable" else "")
        + f"AS SELECT {listed} FROM {SOURCES[of['source']]} "
        + ("WHERE x > 0 " if of["filter"] == "some" else "")
        + (f"PARTITION BY {partition} " if keys else "")
        + clause
        + fill.get(of["fill"], f" FILL({of['fill']})")
    )


# --- as the reference knows it -------------------------------------------------------------------


def stream(of: Mapping[str, str]) -> Stream:
    """Return the stream as the reference knows it."""
    classic = of["syntax"] == "classic"
    trigger = TRIGGERS[of["trigger"]][1]
    policy = of["policy"]
    expired, update = _ignored(policy)
    leaves = isinstance(trigger, Instants) or (
        isinstance(trigger, Count) and trigger.step != 1 and not classic
    )
    in_time = of["emission"] == "periodic"
    ignores = policy == "ignore disorder"
    exact = policy == "exact"
    return Stream(
        trigger,
        _calculation(of),
        emission=of["emission"],  # type: ignore[arg-type]
        watermark=int(of["watermark"][:-1]),
        follows_late=exact or (expired == "0" and not leaves and not ignores),
        follows_updates=exact or (update == "0" and not leaves and not ignores),
        follows_deletes=exact or policy in ("delete recalc", "expired and deletes"),
        exact=exact,
        expiry=8 if policy in ("expired time", "expired and deletes", "delete mark") else None,
        counts_rewritten=update == "1" and not in_time and not isinstance(trigger, EachRow),
        group=GROUPS[of["groups"]][1],
        admits=(lambda row: row["x"] is not None and row["x"] > 0)
        if of["filter"] == "some"
        else lambda _: True,
        drops_empty=of["empty windows"] == "dropped" or (classic and of["fill"] == "none"),
        fill=None if of["fill"] == "none" else of["fill"].lower(),  # type: ignore[arg-type]
        classic=classic,
    )


def _calculation(of: Mapping[str, str]) -> Callable[[list[Row]], Figures]:
    if of["trigger"] == "each row":
        texts = ROW_BY_ROW[of["figures"]]
        return lambda rows: (
            tuple(EXPRESSIONS[text](rows[0]) for text in texts) if rows else (None,) * len(texts)
        )
    chosen = FIGURES[of["figures"]]
    if _is_early(of):  # such a query reads rows of long ago, and finds none
        return lambda _rows: tuple(_figure(name, column, []) for name, column in chosen)

    def calculate(rows: list[Row]) -> Figures:
        return tuple(_figure(name, column, rows) for name, column in chosen)

    return calculate


def _figure(name: str, column: str, rows: list[Row]) -> object:
    """Compute an aggregate; rows of one time go by their tables, composite key, then the value."""
    if column == "*":
        return len(rows)
    value = EXPRESSIONS[column]
    if name == "last_row":
        return value(max(rows, key=_place)) if rows else None
    there = [(_place(row), value(row)) for row in rows if value(row) is not None]
    return AGGREGATES[name]([found for _, found in sorted(there)])


def _place(row: Row) -> tuple[object, ...]:
    return row["ts"], row["tbname"], row.get("k") or 0
