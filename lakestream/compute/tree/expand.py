"""From the paths of a query to the series they stand for: the columns of its result (IoTDB A1, A3).

Columns and devices that a wildcard stands for come first by expression, then in the order in which the
series (the devices) were created.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from lakestream.compute.tree.series_types import NUMBERS, type_of
from lakestream.language.iotdb.paths import ANY_NODE, ANY_NODES, Path, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakestream.language.iotdb.expressions import Expression
    from lakestream.language.iotdb.values import Select


@dataclass(frozen=True)
class Operand:
    """The series that one path of a column stands for: one, or those that LEVEL or a device's name pools."""

    shown: str
    series: tuple[Series, ...]

    @property
    def devices(self) -> frozenset[str]:
        """The devices of the series."""
        return frozenset(series.device for series in self.series)

    @property
    def types(self) -> frozenset[str]:
        """The types of the series."""
        return frozenset(series.type for series in self.series)

    @property
    def pools_measurements(self) -> bool:
        """Whether a device has several points at one time, as those of ``count(*)`` over LEVEL."""
        return len({series.path.measurement for series in self.series}) > 1


@dataclass(frozen=True)
class Output:
    """A column of the result: its name, its expression, and what each path of that stands for."""

    name: str
    expression: Expression
    operands: tuple[Operand, ...]

    @property
    def source(self) -> Path | None:
        """The series that a plain column shows, None for any other column."""
        plain = self.expression.text == "_p0" and len(self.operands[0].series) == 1
        return self.operands[0].series[0].path if plain else None


def control_of(select: Select, series: Sequence[Series]) -> Output | None:
    """Return what the windows of GROUP BY are cut by; None for a SESSION, and where there is no such series.

    Raises StatementError SERIES_AMBIGUOUS where that is several, SERIES_TYPE where it is of a wrong type.
    """
    if select.cut is None or select.cut.expression is None:
        return None
    found = expansions(select, select.cut.expression, series)
    if not found:
        return None
    if len(found) > 1:
        raise select.cut.expression.error(
            "SERIES_AMBIGUOUS", f"the windows of {select.cut.kind} are cut by {len(found)} series, not by one"
        )
    kind = type_of(found[0])
    if select.cut.kind == "CONDITION" and kind != "BOOLEAN":
        raise select.cut.expression.error("SERIES_TYPE", f"CONDITION takes a condition, not {kind}")
    if select.cut.kind == "VARIATION" and select.cut.number and kind not in NUMBERS:
        raise select.cut.expression.error("SERIES_TYPE", f"VARIATION by a delta takes numbers, not {kind}")
    return found[0]


def matching(pattern: Path, series: Iterable[Series]) -> tuple[Series, ...]:
    """Return the series of a pattern, in the order of their creation."""
    return tuple(one for one in series if pattern.matches(one.path))


def outputs(select: Select, series: Sequence[Series]) -> list[Output]:
    """Return the columns of a query behind Time and Device.

    Raises StatementError ALIAS_OF_MANY, SERIES_TYPE.
    """
    found = []
    for item in select.items:
        expanded = expansions(select, item.expression, series)
        if item.alias is not None and len(expanded) > 1:
            raise item.expression.error(
                "ALIAS_OF_MANY", f"the alias {item.alias} stands for {len(expanded)} columns, it names one"
            )
        for output in expanded:
            if select.by_device and not output.expression.counts_times:
                for operand in output.operands:
                    refuse_types(operand, output.expression)
            type_of(output)
            name = item.alias or output.name
            found.append(Output(name, output.expression, output.operands))
    return found


def expansions(select: Select, expression: Expression, series: Sequence[Series]) -> list[Output]:
    """Return an expression once for each way in which its paths stand for series; empty for none."""
    counts = set(expression.calls) == {"count"}
    choices = [
        _pooled(select, path, series)
        if expression.counts_times
        # What is counted may be of any measurement: count(*) is of all points (IoTDB's own tests).
        else _operands(select, path, series, by_measurement=not (counts and path.nodes[-1] in _ANY))
        for path in expression.paths
    ]
    return [
        Output(expression.shown([one.shown for one in chosen]), expression, chosen)
        for chosen in product(*choices)
    ]


def _found(select: Select, path: Path, series: Sequence[Series]) -> tuple[Series, ...]:
    return tuple(
        dict.fromkeys(one for source in select.sources for one in matching(path.below(source), series))
    )


def _pooled(select: Select, path: Path, series: Sequence[Series]) -> list[Operand]:
    found = _found(select, path, series)
    return [Operand(str(path), found)] if found else []


def _operands(select: Select, path: Path, series: Sequence[Series], *, by_measurement: bool) -> list[Operand]:
    found = _found(select, path, series)
    if select.by_device:
        names = dict.fromkeys(one.path.measurement for one in found)
        return [Operand(name, _of_measurement(found, name)) for name in names]
    if not select.levels:
        return [Operand(str(one.path), (one,)) for one in found]
    groups: dict[str, list[Series]] = {}
    for one in found:
        shown = _at_levels(one.path, select.levels, by_measurement=by_measurement)
        groups.setdefault(shown, []).append(one)
    return [Operand(shown, tuple(group)) for shown, group in groups.items()]


def _of_measurement(series: Sequence[Series], name: str) -> tuple[Series, ...]:
    return tuple(one for one in series if one.path.measurement == name)


_ANY = (ANY_NODE, ANY_NODES)


def _at_levels(path: Path, levels: Sequence[int], *, by_measurement: bool) -> str:
    """Return a path with the nodes at the levels, the measurement and the root; stars for the others.

    >>> _at_levels(Path(("root", "ln", "wf01", "status")), (1,), by_measurement=True)
    'root.ln.*.status'
    """
    last = len(path.nodes) - 1
    kept = {0, *levels, *([last] if by_measurement else [])}
    return ".".join(node if place in kept else ANY_NODE for place, node in enumerate(path.nodes))


def one_each(select: Select, expression: Expression, path: Path, series: Sequence[Series]) -> Series | None:
    """Return the one series that a longer path of WHERE names, None when there is none.

    Raises StatementError SERIES_AMBIGUOUS when it stands for several.
    """
    found = [one for source in select.sources for one in matching(path.below(source), series)]
    if len(set(found)) > 1:
        raise expression.error(
            "SERIES_AMBIGUOUS",
            f"{path} stands for {len(set(found))} series: a condition takes one",
            hint="a measurement alone stands for that of each device itself",
        )
    return found[0] if found else None


def refuse_types(operand: Operand, expression: Expression) -> None:
    """Raise SERIES_TYPE for a measurement whose devices have it in several types."""
    if len(operand.types) > 1:
        raise expression.error(
            "SERIES_TYPE",
            f"{operand.shown} has the types {', '.join(sorted(operand.types))}: one is needed here",
        )
