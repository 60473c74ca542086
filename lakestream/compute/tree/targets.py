"""INTO: which column of a result goes into which series (IoTDB A3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.paths import Path, filled_device, filled_measurement, has_placeholder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.language.iotdb.values import Select, Target


def by_time(select: Select, sources: Sequence[Path | None]) -> list[Path]:
    """Return the target series of each column of a result that is aligned by time, left to right.

    ``sources`` are the series that plain columns show. Raises StatementError INTO_INVALID where targets and
    columns do not pair.
    """
    targets = [(target, name) for target in select.into for name in target.measurements]
    if len(targets) == 1 and has_placeholder(targets[0][1]):
        targets *= len(sources)
    if len(targets) != len(sources):
        raise _refused(
            select, f"INTO names {len(targets)} targets for {len(sources)} columns", "one target per column"
        )
    pairs = zip(targets, sources, strict=True)
    found = [_filled(select, target, name, source) for (target, name), source in pairs]
    _refuse_twice(select, found)
    return found


def by_device(
    select: Select, devices: Sequence[Path], measurements: Sequence[str]
) -> dict[Path, tuple[Path, ...]]:
    """Return for each source device the target series of its columns.

    ``measurements`` are the names of the columns: what ``::`` stands for. Raises INTO_INVALID.
    """
    targets = select.into
    shared = len(targets) == 1 and (len(devices) == 1 or _has_placeholder(targets[0]))
    if not shared and len(targets) != len(devices):
        raise _refused(
            select,
            f"INTO names {len(targets)} devices for {len(devices)}",
            "one target for each device, or one with placeholders",
        )
    found: dict[Path, tuple[Path, ...]] = {}
    for place, device in enumerate(devices):
        target = targets[0] if shared else targets[place]
        found[device] = _row_targets(select, target, device, measurements)
    _refuse_twice(select, [path for paths in found.values() for path in paths])
    return found


def _row_targets(
    select: Select, target: Target, device: Path, measurements: Sequence[str]
) -> tuple[Path, ...]:
    names = target.measurements
    if len(names) == 1 and len(measurements) > 1 and has_placeholder(names[0]):
        names *= len(measurements)
    if len(names) != len(measurements):
        raise _refused(
            select,
            f"{target.device} names {len(names)} measurements for {len(measurements)} columns",
            "one measurement for each item of SELECT",
        )
    return tuple(
        _filled(select, target, name, Path((*device.nodes, measurement)))
        for name, measurement in zip(names, measurements, strict=True)
    )


def _has_placeholder(target: Target) -> bool:
    return any(map(has_placeholder, (*target.device.nodes, *target.measurements)))


def _filled(select: Select, target: Target, name: str, source: Path | None) -> Path:
    if source is None:
        return Path((*target.device.nodes, name))
    device, measurement = filled_device(target.device, source.device), filled_measurement(name, source)
    if device is None or measurement is None:
        raise _refused(
            select, f"{target.device}({name}) asks for a node that {source} has not", "${0} is root"
        )
    return Path((*device.nodes, measurement))


def _refuse_twice(select: Select, paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path in seen:
            raise _refused(select, f"{path} is a target twice", "every column has a series of its own")
        seen.add(path)


def _refused(select: Select, message: str, hint: str) -> StatementError:
    return StatementError("INTO_INVALID", message, hint=hint, place=place_of(select.text))
