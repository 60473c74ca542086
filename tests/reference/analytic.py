"""eKuiper's analytic functions in plain Python: event by event, each with its own state for each key.

What an event gives comes before what it leaves behind; WHEN says which events count, and one that does not
has a result all the same. NULL is None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    Event = Mapping[str, Any]
    Value = Callable[[Event], Any]


@dataclass
class Function(ABC):
    """A call: its arguments, what tells keys apart, and the events that count."""

    arguments: tuple[Value, ...]
    key: Value = lambda _event: ()
    when: Value = lambda _event: True
    ignores_null: bool = True
    offset: int = 1
    states: dict[Hashable, Any] = field(default_factory=dict)

    def __call__(self, event: Event) -> Any:
        """Return the result for the next event."""
        values = [argument(event) for argument in self.arguments]
        return self.result(self.key(event), values, counts=self.when(event) is True)

    @abstractmethod
    def result(self, key: Hashable, values: list[Any], *, counts: bool) -> Any:
        """Return the result, and remember what is to be remembered."""


class Lag(Function):
    """The value of so many events before; the default of the first event where there were fewer."""

    def result(self, key: Hashable, values: list[Any], *, counts: bool) -> Any:
        value, *default = values
        ring = self.states.setdefault(key, [default[0] if default else None] * self.offset)
        found = ring[0]
        if counts and not (self.ignores_null and value is None):
            self.states[key] = [*ring[1:], value]
        return found


class Latest(Function):
    """The last value that there was, with the event's own."""

    def result(self, key: Hashable, values: list[Any], *, counts: bool) -> Any:
        value, *default = values
        if counts and value is not None:
            self.states[key] = value
        found = self.states.get(key)
        return default[0] if found is None and default else found


class HadChanged(Function):
    """Whether a value is another one than the last that counted."""

    def result(self, key: Hashable, values: list[Any], *, counts: bool) -> Any:
        changed = False
        for number, value in enumerate(values):
            last = self.states.get((key, number))
            if counts and not (self.ignores_null and value is None) and value != last:
                self.states[key, number] = value
                changed = True
        return changed


class ChangedCol(HadChanged):
    """The value where it is another one than the last that counted."""

    def result(self, key: Hashable, values: list[Any], *, counts: bool) -> Any:
        return values[0] if super().result(key, values, counts=counts) else None


class _Summed(Function):
    """From an event with ``begin`` to one with ``reset``, that one included; without them always."""

    def result(self, key: Hashable, values: list[Any], *, counts: bool) -> Any:
        value, *conditions = values
        is_open, listed = self.states.get(key, (False, []))
        begin, reset = (condition is True for condition in conditions) if conditions else (True, False)
        listed = listed if is_open else []
        is_open = is_open or begin
        if is_open and counts and value is not None:
            listed = [*listed, value]
        self.states[key] = (is_open and not reset, listed)
        return self.of(listed)

    @abstractmethod
    def of(self, values: list[Any]) -> Any:
        """Return what the values come to."""


class AccCount(_Summed):
    """How many values."""

    def of(self, values: list[Any]) -> Any:
        return len(values)


class AccSum(_Summed):
    """Their sum."""

    def of(self, values: list[Any]) -> Any:
        return float(sum(values))


class AccMax(_Summed):
    """The largest of them, 0 of none."""

    def of(self, values: list[Any]) -> Any:
        return float(max(values, default=0))


class AccMin(_Summed):
    """The smallest of them, 0 of none."""

    def of(self, values: list[Any]) -> Any:
        return float(min(values, default=0))


class AccAvg(_Summed):
    """Their mean, 0 of none."""

    def of(self, values: list[Any]) -> Any:
        return sum(values) / len(values) if values else 0.0


FUNCTIONS: dict[str, type[Function]] = {
    "lag": Lag,
    "latest": Latest,
    "had_changed": HadChanged,
    "changed_col": ChangedCol,
    "acc_count": AccCount,
    "acc_sum": AccSum,
    "acc_max": AccMax,
    "acc_min": AccMin,
    "acc_avg": AccAvg,
}
