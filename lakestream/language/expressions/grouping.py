"""What the groups of PARTITION BY are in the output: tags of subtables, or columns as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.expressions.parsing import parse_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.language.model import Fragment, GroupKey, TagDefinition


def asks_for_subtables(
    partition_by: Sequence[GroupKey], subtable: Fragment | None, tags: Sequence[TagDefinition] | None
) -> bool:
    """Return whether groups have subtables in the output: by name, by tags, or for those of the source."""
    return bool(subtable or tags) or any(key.is_tbname for key in partition_by)


def selected_groups(
    partition_by: Sequence[GroupKey], query: exp.Query, names: Sequence[str]
) -> dict[str, str]:
    """Return the results that are grouping columns, by the names of these, from which theirs differ in case.

    ``names`` are those of the query's columns. A result is a grouping column that is ``%%n``, or that
    column itself in a query of ``%%trows``.
    """
    source = query.args.get("from_")
    of_rows = source is not None and source.this.name.lower() == "%%trows"
    found = {}
    for number, key in enumerate(partition_by, 1):
        own = parse_expression(key.expression)
        values = {f"%%{number}", *([own.name.lower()] if of_rows and isinstance(own, exp.Column) else [])}
        for name, item in zip(names, query.selects, strict=False):
            value = item.unalias()
            is_own = isinstance(value, exp.Column) and value.name.lower() in values
            if is_own and name.lower() == key.name.lower():
                found[key.name] = name
    return found
