"""Types of columns, and what names mean in a query: which of them are DECIMAL or FLOAT."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.exact import NotExactError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

FLOAT, BINARY, NOTHING = "float", "binary", "null"
MOST_DIGITS = 38
"""Of a decimal."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True)
class Struct:
    """A struct: its fields with their types."""

    fields: tuple[tuple[str, Kind], ...]


@dataclass(frozen=True)
class Listed:
    """A list of values of a type."""

    item: Kind


Kind = str | Struct | Listed | None
"""A type, by the name that Spark has for it; None for one that is not known, and has no DECIMAL or FLOAT."""
Columns = tuple[tuple[str, Kind], ...]
"""Names in small letters, with their types."""


def is_passed(kind: Kind) -> bool:
    """Return whether there are DECIMAL, FLOAT or BINARY values in a type: passed on, and little else."""
    if isinstance(kind, Struct):
        return any(is_passed(one) for _, one in kind.fields)
    if isinstance(kind, Listed):
        return is_passed(kind.item)
    return kind is not None and (kind in (FLOAT, BINARY) or kind.startswith("decimal"))


def are_alike(one: Kind, other: Kind) -> bool:
    """Return whether two types have the same DECIMAL and FLOAT values at the same places."""
    if not is_passed(one) or not is_passed(other):
        return is_passed(one) == is_passed(other)
    if isinstance(one, Struct) and isinstance(other, Struct):
        return len(one.fields) == len(other.fields) and all(
            name == also and are_alike(kind, its)
            for (name, kind), (also, its) in zip(one.fields, other.fields, strict=True)
        )
    if isinstance(one, Listed) and isinstance(other, Listed):
        return are_alike(one.item, other.item)
    return one == other


def common(kinds: list[Kind]) -> Kind:
    """Return the type of values of which one is taken; raises NotExactError where they are not all of it."""
    found, *others = [kind for kind in kinds if kind != NOTHING] or [NOTHING]
    for other in others:
        if are_alike(found, other):
            found = found if is_passed(found) or found == other else None
        else:
            found = _wider(found, other)
    return found


def _wider(one: Kind, other: Kind) -> Kind:
    """Return the type that has the values of both."""
    if isinstance(one, str) and isinstance(other, str):
        if {one, other} == {FLOAT, "double"}:
            return "double"
        both = [DECIMAL.fullmatch(kind) for kind in (one, other)]
        digits = [(int(found[1]), int(found[2])) for found in both if found]
        if len(digits) == len(both):
            scale = max(scale for _, scale in digits)
            precision = max(precision - scale for precision, scale in digits) + scale
            if precision <= MOST_DIGITS:
                return f"decimal({precision},{scale})"
    raise NotExactError("decimals or floats beside values of another type")


def kind_of_column(kind: pa.DataType) -> Kind:
    """Return the name of a type of Arrow's; raises NotExactError for those that are not on the list."""
    import pyarrow.types as kinds

    if kinds.is_list(kind):
        return Listed(kind_of_column(kind.value_type))
    if kinds.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return Struct(tuple((one.name.lower(), kind_of_column(one.type)) for one in fields))
    if kinds.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    name = _NAMES.get(str(kind))
    if name is None:
        raise NotExactError(f"a column of {kind}")
    return name


_NAMES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": FLOAT,
    "double": "double",
    "bool": "boolean",
    "string": "string",
    "binary": BINARY,
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "null": NOTHING,
}


TYPES = frozenset({*_NAMES.values()} - {NOTHING})
"""What types are called that columns have, and typeof() gives, but for those with parts or digits."""


@lru_cache(maxsize=1_000)
def columns_of(schema: pa.Schema) -> Columns:
    """Return the columns of rows; raises NotExactError for types that are not on the list."""
    return tuple((one.name.lower(), kind_of_column(one.type)) for one in schema)


def kind_named(kind: exp.DataType) -> Kind:
    """Return a type that is written."""
    if kind.this is exp.DataType.Type.STRUCT:
        return Struct(tuple((one.name.lower(), kind_named(one.args["kind"])) for one in kind.expressions))
    if kind.this is exp.DataType.Type.ARRAY:
        return Listed(kind_named(kind.expressions[0]))
    if kind.this is exp.DataType.Type.DECIMAL:
        precision, scale = ([one.name for one in kind.expressions] + ["10", "0"][len(kind.expressions) :])[:2]
        return f"decimal({precision},{scale})"
    return kind.sql("spark").lower()


@dataclass(frozen=True)
class Relation:
    """What rows are read from; ``columns`` are None where they are not known, and none is passed on."""

    name: str
    columns: Columns | None

    def find(self, name: str) -> list[Kind]:
        """Return the types of the columns of a name."""
        return [kind for own, kind in self.columns or () if own == name]


@dataclass
class Scope:
    """What names mean within a SELECT: its relations, what it gives, and what is around it."""

    views: Mapping[str, Columns | None]
    outer: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    results: dict[str, exp.Expr] = field(default_factory=dict)

    def find(self, column: exp.Column, kind_of: Callable[[exp.Expr, Scope], Kind]) -> Kind:
        """Return the type of a column, or of a field of one; raises NotExactError where there is none."""
        parts = [part.name.lower() for part in column.parts]
        found = self._of_relations(parts)
        if found:
            return found[0]
        result = self.results.get(parts[0])
        if result is not None and result.find(exp.Column) is not column:
            left = Scope(self.views, self.outer, self.relations, {**self.results})
            del left.results[parts[0]]
            return self._result(_field_of(kind_of(result, left), parts[1:]))
        if any(one.columns is None for one in self.relations):
            return None
        if self.outer is None:
            raise NotExactError(f"{column.sql('spark')} is not found")
        return self.outer.find(column, kind_of)

    def _result(self, kind: Kind) -> Kind:
        if is_passed(kind) and any(one.columns is None for one in self.relations):
            raise NotExactError("a name of a result that may be a column's")
        return kind

    def _of_relations(self, parts: list[str]) -> list[Kind]:
        """Return the type that relations have for a name, none where they have not."""
        named = [one for one in self.relations if len(parts) > 1 and one.name == parts[0]]
        if any(one.columns is None for one in named):
            return [None]
        path = parts[2:]
        found = [kind for one in named for kind in one.find(parts[1])]
        if not found:
            path = parts[1:]
            found = [kind for one in self.relations for kind in one.find(parts[0])]
        if len(found) > 1:
            raise NotExactError(f"{parts[0]} of two columns")
        return [_field_of(kind, path) for kind in found]

    def all_of(self, star: exp.Expr) -> Columns | None:
        """Return the columns that a star stands for, None where they are not known."""
        name = star.args["table"].name.lower() if isinstance(star, exp.Column) else ""
        meant = [one for one in self.relations if not name or one.name == name]
        if not meant:
            kinds = [kind for one in self.relations for kind in one.find(name)]
            if not kinds and any(one.columns is None for one in self.relations):
                return None
            if len(kinds) != 1 or not isinstance(kinds[0], Struct):
                raise NotExactError("a star of something else")
            return kinds[0].fields
        columns = [column for one in meant for column in one.columns or ()]
        if any(one.columns is None for one in meant):
            if any(is_passed(kind) for _, kind in columns):
                raise NotExactError("a star of columns that are not known")
            return None
        left = {one.name.lower() for one in star.find(exp.Star).args.get("except_") or ()}  # type: ignore[union-attr]
        return tuple((own, kind) for own, kind in columns if own not in left)


def _field_of(kind: Kind, path: list[str]) -> Kind:
    """Return the type of a field within a type."""
    for name in path:
        if not isinstance(kind, Struct):
            if is_passed(kind):
                raise NotExactError("a field of decimals or floats")
            return None
        kind = common([one for own, one in kind.fields if own == name])
    return kind
