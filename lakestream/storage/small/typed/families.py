"""What Spark lets stand beside one another, where types are known: DuckDB mixes more kinds than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.typed.scopes import BINARY, DECIMAL, FLOAT

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


def check_family(kinds: Iterable[Kind], *families: str) -> None:
    """Refuse values of which one is known to be of none of the families; raises MixedError."""
    for kind in kinds:
        found = family_of(kind)
        if found is not None and found not in families:
            raise MixedError(f"a {found} where {' or '.join(families)} is due")


def check_one(kinds: Iterable[Kind]) -> None:
    """Refuse values of which one is taken, or that make one column, and that are of two families."""
    found = {family for kind in kinds if (family := family_of(kind)) is not None}
    if len(found) > 1:
        raise MixedError(f"{' and '.join(sorted(found))} as one value")


def check_compared(kinds: Iterable[Kind], *, equal: bool = False) -> None:
    """Refuse to compare values of two families; texts are read as the others, looked at elsewhere.

    Whether truths and numbers are ``equal`` may be asked.
    """
    found = {family for kind in kinds if (family := family_of(kind)) is not None}
    if equal and found <= {TRUTH, NUMBER}:
        return
    if len(found - {TEXT}) > 1 or {TEXT, BYTES} <= found:
        raise MixedError(f"{' and '.join(sorted(found))} that are compared")
