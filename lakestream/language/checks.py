from __future__ import annotations
from dataclasses import dataclass
from lakestream.language.model import Fragment, GroupKey, TagDefinition
def check_query(f: Fragment) -> Fragment:
    return f
def check_expression(f: Fragment, clause: str) -> Fragment:
    return f
@dataclass(frozen=True)
class StreamFacts:
    trigger: str
    partition_by: tuple[GroupKey, ...]
    columns: tuple[str, ...]
    tags: tuple[TagDefinition, ...]
    subtable: Fragment | None
    calculation: Fragment | None
    pre_filter: Fragment | None
    notify_where: Fragment | None
    fires_at_open: bool
def check_stream(facts: StreamFacts) -> None:
    pass
