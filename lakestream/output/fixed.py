"""What is the same in all rows of a stream, by which several streams keep apart in one output.

Source: TDengine, where streams write subtables of one supertable; here a stream has to say what tells its
rows from others', so that what it rewrites, recalculates and verifies are its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.expressions.parsing import parse_expression

if TYPE_CHECKING:
    from lakestream.language.model import Fragment, StreamDefinition
    from lakestream.language.quoting import Quoting

_LONGEST = 100
"""Characters of a text that stay where the name of a subtable is cut."""
_LAST = 0xD7FE
"""The greatest code of a character behind which comes one that a text can have."""
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(frozen=True)
class Fixed:
    """What a column holds in all rows of a stream: a value, or (``begins``) texts that begin with one."""

    value: str | int
    begins: bool = False

    def fits(self, kind: str) -> bool:
        """Return whether a column of a Spark type holds it as it is."""
        return kind == "string" if isinstance(self.value, str) else kind in _WHOLE

    def is_apart(self, other: Fixed) -> bool:
        """Return whether no value of a column is both's.

        >>> Fixed("a_", begins=True).is_apart(Fixed("ab"))
        True
        """
        if isinstance(self.value, int) or isinstance(other.value, int):
            return isinstance(self.value, int) and isinstance(other.value, int) and self.value != other.value
        if self.begins and other.value.startswith(self.value):
            return False
        return not (other.begins and self.value.startswith(other.value)) and self.value != other.value

    def sql(self, column: str, quoting: Quoting) -> str:
        """Return what holds for the values of a column that are these."""
        name = quoting.name(column)
        if isinstance(self.value, int):
            return f"{name} = {self.value}"
        if not self.begins:
            return f"{name} = {quoting.text(self.value)}"
        behind = self.value[:-1] + chr(ord(self.value[-1]) + 1)
        return f"{name} >= {quoting.text(self.value)} AND {name} < {quoting.text(behind)}"


def fixed_value(node: exp.Expr) -> Fixed | None:
    """Return what an expression always is; None: it is no literal."""
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return Fixed(node.name)
    return Fixed(int(node.name)) if node.is_int else None


def fixed_subtable(definition: StreamDefinition) -> Fixed | None:
    """Return what the names of a stream's subtables begin with, or all are; None: nothing is sure.

    A part that may be NULL would have the group's own name taken in place of the text.
    """
    if definition.subtable is None:
        return None
    node = parse_expression(definition.subtable)
    parts = node.expressions if isinstance(node, exp.Concat) else [node]
    if not all(_is_never_null(part, definition) for part in parts):
        return None
    begin = ""
    for part in parts:
        if not (isinstance(part, exp.Literal) and part.is_string):
            break
        begin += part.name
    if not begin or len(begin) > _LONGEST or ord(begin[-1]) > _LAST:
        return None
    is_whole = all(isinstance(part, exp.Literal) for part in parts) and not definition.options.names_apart
    return Fixed(begin, begins=not is_whole)


def fixed_tag(fragment: Fragment) -> Fixed | None:
    """Return what a tag is for all groups; None: it is not one value."""
    return fixed_value(parse_expression(fragment))


def _is_never_null(node: exp.Expr, definition: StreamDefinition) -> bool:
    if isinstance(node, exp.Column):
        keys = [key for key in definition.partition_by if key.is_tbname]
        names = {"tbname", "%%tbname", *(key.name.lower() for key in keys)}
        return bool(keys) and node.name.lower() in names
    if isinstance(node, exp.Coalesce):
        return any(_is_never_null(one, definition) for one in (node.this, *node.expressions))
    return isinstance(node, exp.Literal)
