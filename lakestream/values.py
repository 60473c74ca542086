"""Dataclasses whose methods are shared: the standard ones compile five or six for each class, at every start.

What they are stays: ``fields``, ``replace`` and the rest of :mod:`dataclasses` take them for their own.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import Field, dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:  # noqa: ANN401 - a class, or its maker
        """Do what :func:`dataclasses.dataclass` does; what is frozen, or has no options, shares methods."""
        if cls is None:
            return lambda given: dataclass(given, **options)
        if options.keys() <= {"frozen", "eq"}:
            return _shared(cls, **options)
        return dataclasses.dataclass(cls, **options)


__all__ = ["dataclass"]


def _shared(cls: type, *, frozen: bool = False, eq: bool = True) -> type:
    own, has_hash = {*cls.__dict__}, cls.__dict__.get("__hash__") is not None
    # Without a text of its own it would be given one that takes longer than all else here.
    cls.__doc__ = cls.__doc__ or cls.__name__
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)
    methods: dict[str, object] = {"__init__": _initializer(cls, fields), "__repr__": _shown}
    if frozen:
        methods |= _freezing(cls, frozenset(field.name for field in fields))
    if eq:
        values = _values_of([field.name for field in fields if field.compare])
        methods["__eq__"] = _compared(values)
    for name in methods.keys() - own:
        setattr(cls, name, methods[name])
    if eq and not has_hash:
        cls.__hash__ = _hashed(values) if frozen else None  # type: ignore[assignment]
    return cls


def _initializer(cls: type, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    names = tuple(field.name for field in fields if field.init)
    defaults = {field.name: field.default for field in fields if field.default is not MISSING}
    makers = {f.name: f.default_factory for f in fields if f.default_factory is not MISSING}
    expected, count = {*names, *defaults, *makers}, len(names)
    has_all, finishes = len(expected) == count, hasattr(cls, "__post_init__")

    def __init__(self: Any, /, *args: object, **given: object) -> None:  # noqa: ANN401, N807
        if len(args) == count and has_all and not given:
            self.__dict__.update(zip(names, args, strict=True))
        else:
            values = {**defaults, **dict(zip(names, args, strict=False)), **given}
            for name in makers.keys() - values.keys():
                values[name] = makers[name]()
            if values.keys() != expected or not _fits(names, args, given):
                _refuse(cls, args, given)
            self.__dict__.update(values)
        if finishes:
            self.__post_init__()

    return __init__


def _fits(names: tuple[str, ...], args: tuple[object, ...], given: Mapping[str, object]) -> bool:
    """Return whether arguments are of fields that a call gives, each once."""
    return len(args) <= len(names) and given.keys() <= {*names[len(args) :]}


def _refuse(cls: type, args: tuple[object, ...], given: Mapping[str, object]) -> None:
    """Raise the TypeError of a call that does not fit the fields."""
    from inspect import Parameter, Signature

    fields = [field for field in dataclasses.fields(cls) if field.init]
    needed = [f for f in fields if f.default is MISSING and f.default_factory is MISSING]
    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(f.name, kind, default=Parameter.empty if f in needed else None) for f in fields]
    try:
        Signature(parameters).bind(*args, **given)
    except TypeError as error:
        raise TypeError(f"{cls.__qualname__}: {error}") from None


@recursive_repr()
def _shown(self: Any) -> str:  # noqa: ANN401
    fields = (field for field in dataclasses.fields(self) if field.repr)
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _values_of(names: list[str]) -> Callable[[Any], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _compared(values: Callable[[Any], tuple[object, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:  # noqa: ANN401, N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashed(values: Callable[[Any], tuple[object, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: ANN401, N807
        return hash(values(self))

    return __hash__


def _freezing(cls: type, names: frozenset[str]) -> dict[str, object]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: ANN401, N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: ANN401, N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}
