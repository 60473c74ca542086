"""Dataclasses that share their methods behave as the standard ones do."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

MAKERS = [dataclasses.dataclass, dataclass]


def point(make: Callable[..., Any]) -> Any:
    @make(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, compare=False)
        shown: bool = field(default=True, repr=False)

        @cached_property
        def total(self) -> int:
            return self.x + self.y

    return Point


def counter(make: Callable[..., Any]) -> Any:
    @make
    class Counter:
        start: int
        kept: list[int] = field(default_factory=list, init=False)
        made: str = field(init=False)

        def __post_init__(self) -> None:
            self.made = f"from {self.start}"

    return Counter


@pytest.mark.parametrize("make", MAKERS)
def test_a_value_is_what_it_was_given(make: Callable[..., Any]) -> None:
    cls = point(make)
    given = cls(1, y=3)
    assert (given.x, given.y, given.names, given.shown) == (1, 3, [], True)
    assert given == cls(1, 3, ["other"])
    assert hash(given) == hash(cls(x=1, y=3))
    assert given != cls(1, 4)
    assert given != (1, 3, [], True)
    assert repr(given).endswith("Point(x=1, y=3, names=[])")
    assert given.total == 4
    assert [one.name for one in dataclasses.fields(given)] == ["x", "y", "names", "shown"]
    assert dataclasses.replace(given, x=5).total == 8
    assert dataclasses.asdict(given) == {"x": 1, "y": 3, "names": [], "shown": True}
    assert copy.deepcopy(given) == copy.copy(given) == given
    assert cls(1).names is not cls(1).names
    match given:
        case cls(x, y):
            assert (x, y) == (1, 3)


@pytest.mark.parametrize("make", MAKERS)
def test_a_frozen_value_stays_as_it_is(make: Callable[..., Any]) -> None:
    given = point(make)(1)
    with pytest.raises(FrozenInstanceError):
        given.x = 2
    with pytest.raises(FrozenInstanceError):
        given.z = 1
    with pytest.raises(FrozenInstanceError):
        del given.x
    assert given.x == 1


@pytest.mark.parametrize("make", MAKERS)
def test_one_that_is_not_frozen_changes_and_has_no_hash(make: Callable[..., Any]) -> None:
    cls = counter(make)
    given = cls(3)
    given.kept.append(1)
    given.start = 4
    assert repr(given).endswith("Counter(start=4, kept=[1], made='from 3')")
    assert given != cls(4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(given)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("args", "given"),
    [((), {}), ((1, 2, [], True, 5), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": 1})],
)
def test_what_does_not_fit_is_refused(
    make: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        point(make)(*args, **given)


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_not_given_cannot_be_given(make: Callable[..., Any]) -> None:
    for name in ("kept", "made"):
        with pytest.raises(TypeError):
            counter(make)(1, **{name: []})


@pytest.mark.parametrize("make", MAKERS)
def test_classes_within_one_another(make: Callable[..., Any]) -> None:
    base = point(make)

    @make(frozen=True)
    class Further(base):  # type: ignore[misc,valid-type]
        z: int = 0

        def __repr__(self) -> str:
            return "further"

    class Plain(base):  # type: ignore[misc,valid-type]
        def __init__(self, x: int) -> None:
            super().__init__(x)
            object.__setattr__(self, "own", x)

    given = Further(1, 2, [], z=3)
    assert (given.x, given.z, repr(given)) == (1, 3, "further")
    assert given != base(1, 2)
    assert Plain(3).own == 3
    assert Plain(3) == Plain(3)


@pytest.mark.parametrize("make", MAKERS)
def test_without_equality_each_is_itself(make: Callable[..., Any]) -> None:
    @make(frozen=True, eq=False)
    class Own:
        x: float = float("nan")

    given: Any = Own()
    assert given != Own()
    assert {given: 1}[given] == 1


@pytest.mark.parametrize("make", MAKERS)
def test_values_of_no_or_one_field(make: Callable[..., Any]) -> None:
    @make(frozen=True)
    class Nothing:
        pass

    @make(frozen=True)
    class Single:
        x: object

    nan, one_of = float("nan"), cast("Any", Single)
    assert Nothing() == Nothing()
    assert one_of(nan) == one_of(nan)
    assert hash(one_of(1)) == hash(one_of(1))
    assert repr(one_of(one_of(1))).endswith("Single(x=1))")


def test_an_order_is_that_of_the_standard_ones() -> None:
    @dataclass(frozen=True, order=True)
    class Ordered:
        x: int

    assert Ordered(1) < Ordered(2)
