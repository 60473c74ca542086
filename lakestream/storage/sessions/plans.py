"""What a query turned out to be once Spark has resolved it: functions and relations that may be there.

The text has been checked before (:mod:`lakestream.language.common.allowed`), and all that it names in FROM
are views that lakestream has made; this holds the outcome against that. A client of Spark Connect does not
see the plan of its server: there the text alone is checked, and whose functions are called.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.storage.sessions.session import handed_place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

_LEAVES = frozenset(
    {"OneRowRelation", "LocalRelation", "Range", "LogicalRDD", "CTERelationRef", "UnionLoopRef"}
    | {"InMemoryRelation"}
)
"""Relations that have their rows already, or make them of nothing."""

_OF_DELTA = ("org.apache.spark.sql.delta.", "com.databricks.sql.transaction.tahoe.")
_CLASS = re.compile(r'"class":"[\w.$]*\.(\w+)"')
_HARMFUL = frozenset(
    {"CallMethodViaReflection", "AvroDataToCatalyst", "ProtobufDataToCatalyst", "XmlToStructs", "SchemaOfXml"}
    | {"InputFileName", "InputFileBlockStart", "InputFileBlockLength"}
    | {"CurrentUser", "CurrentDatabase", "CurrentCatalog"}
)
"""What the refused functions of Spark become, some of which need no brackets."""

_MOST_KNOWN = 1_000
_KNOWN: set[str] = set()
"""Queries that were found harmless."""


def refuse_plan(frame: DataFrame, sql: str) -> None:
    """Raise StatementError FORBIDDEN where a query reads or calls what it may not; looked at once a text."""
    executed: Any = getattr(frame, "_jdf", None)
    if executed is None or sql in _KNOWN:
        return
    plan = executed.queryExecution().analyzed()
    found = _HARMFUL.intersection(_CLASS.findall(plan.toJSON()))
    if found:
        raise _forbidden(f"the query calls {', '.join(sorted(found))}")
    leaves, place = plan.collectLeaves(), handed_place(frame.sparkSession)
    for at in range(leaves.size()):
        if (foreign := _foreign(leaves.apply(at), place)) is not None:
            raise _forbidden(f"the query reads {foreign}")
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN.add(sql)


def refuse_calls(spark: SparkSession, names: Iterable[str]) -> None:
    """Raise StatementError FORBIDDEN for functions that the owner of the session has not made.

    ``names`` are those that are not Spark's by the lists. No statement makes one: what is in the catalog is
    its owner's. What else Spark has under a name is another Spark's, of which nothing is known.
    """
    if not hasattr(spark, "catalog"):
        return  # the small session calls what it knows, by a list
    from pyspark.errors import AnalysisException

    for name in names:
        with suppress(AnalysisException):  # of what lakestream has made something else
            if spark.catalog.getFunction(name).isTemporary:
                raise _forbidden(f"the function {name} is not known to be harmless")


def _foreign(leaf: Any, place: str) -> str | None:  # noqa: ANN401 - Spark's LogicalPlan
    """Return what a leaf of a plan reads where it is no table of Delta and has no rows of its own.

    ``place`` is the folder of the files in which a table's rows are handed to Spark, empty where none is.
    """
    kind = leaf.getClass().getSimpleName()
    if kind in _LEAVES:
        return None
    if kind == "LogicalRelation":
        kind = leaf.relation().getClass().getName()
        if place and kind.endswith(".HadoopFsRelation") and _lies_in(place, leaf.relation().location()):
            return None
    elif kind == "DataSourceV2Relation":
        kind = leaf.table().getClass().getName()
    return None if kind.startswith(_OF_DELTA) else str(kind)


def _lies_in(place: str, location: Any) -> bool:  # noqa: ANN401 - Spark's FileIndex
    paths = location.rootPaths().mkString("\n").splitlines()
    return all(path.removeprefix("file:").startswith(f"{place.rstrip('/')}/") for path in paths)


def _forbidden(message: str) -> StatementError:
    return StatementError("FORBIDDEN", message, hint="a query reads tables of the lake and nothing else")
