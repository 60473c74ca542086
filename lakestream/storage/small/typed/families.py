"""What Spark lets stand beside one another, where types are known: DuckDB mixes more kinds than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.typed.scopes import BINARY, DECIMAL, FLOAT, NOTHING, common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakestream.storage.small.typed.scopes import Kind

NUMBER, TRUTH, TEXT, TIME, BYTES = "number", "boolean", "string", "time", "bytes"
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "double", FLOAT, NUMBER), NUMBER),
    **dict.fromkeys(("date", "timestamp"), TIME),
    "boolean": TRUTH,
    "string": TEXT,
    BINARY: BYTES,
}


class MixedError(NotExactError):
    """Values that Spark does not let stand there, or not beside others, or only as another type."""


def family_of(kind: Kind) -> str | None:
    """Return what values of a type are; None where it is not known, of NULL, and of lists and structs."""
    if not isinstance(kind, str):
        return None
    return NUMBER if DECIMAL.fullmatch(kind) else _FAMILIES.get(kind)


def _families(kinds: Iterable[Kind]) -> set[str]:
    return {family for kind in kinds if (family := family_of(kind)) is not None}


def check_family(kinds: Iterable[Kind], *families: str) -> None:
    """Refuse values of which one is known to be of none of the families; raises MixedError."""
    if others := _families(kinds).difference(families):
        raise MixedError(f"{' and '.join(sorted(others))} where {' or '.join(families) or 'none'} is due")


def check_conditions(kinds: Iterable[Kind]) -> None:
    """Refuse conditions that are known not to be truths, a NULL without a type among them.

    Raises MixedError.
    """
    found = [*kinds]
    check_family(found, TRUTH)
    if NOTHING in found:
        raise MixedError("NULL as a condition")


def one_of(kinds: list[Kind]) -> Kind:
    """Return the type of values of which one is taken, or that make one column.

    Raises MixedError for two families, and NotExactError where they are not all of the type.
    """
    if len(found := _families(kinds)) > 1:
        raise MixedError(f"{' and '.join(sorted(found))} as one value")
    return common(kinds)


def check_compared(kinds: Iterable[Kind], *, equal: bool = False) -> None:
    """Refuse to compare values of two families; texts are read as the others, looked at elsewhere.

    Whether truths and numbers are ``equal`` may be asked. Raises MixedError.
    """
    found = _families(kinds)
    if equal and found <= {TRUTH, NUMBER}:
        return
    if len(found - {TEXT}) > 1 or {TEXT, BYTES} <= found:
        raise MixedError(f"{' and '.join(sorted(found))} that are compared")
