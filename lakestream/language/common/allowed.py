"""Which functions a query may call: those of Spark that are known to do nothing but compute.

The lists are those of the locked Spark (``tests/contract/test_allowed.py`` holds them against what that has).
What reads files, runs code of others, or tells of the process and its session is refused. Names that are on
neither list are not Spark's: whoever owns the session may have made them, which the session tells.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.common.dialect import NAME, TDengine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CODE = "it runs code of others"
_FILES = "it reads files, or other places than the lake's tables, by name"
_PROCESS = "it tells of the process and its session, not of the lake"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("java_method", "reflect", "try_reflect", "ai_query", "http_request"), _CODE),
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "it reads a descriptor from a file"),
    **dict.fromkeys(("from_xml", "schema_of_xml"), "it reads a schema from the file that an option names"),
    **dict.fromkeys(("from_avro", "schema_of_avro"), "it reads a schema from where an option names"),
    **dict.fromkeys(("table_changes", "table_changes_by_path", "read_files", "cloud_files"), _FILES),
    **dict.fromkeys(("read_kafka", "read_parquet", "read_csv"), _FILES),
    **dict.fromkeys(("remote_query", "openrowset", "read_statestore", "vector_search"), _FILES),
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), _PROCESS),
    **dict.fromkeys(("current_user", "session_user", "user", "python_worker_logs"), _PROCESS),
    **dict.fromkeys(("current_catalog", "current_database", "current_schema", "current_path"), _PROCESS),
    **dict.fromkeys(("secret", "try_secret"), "it tells secrets"),
    "identifier": "it makes a name of a text",
}
"""Functions that a query may not call, of Spark, Databricks and DuckDB (which sqlglot reads), and why."""

HARMLESS = frozenset(Path(__file__).with_name("spark_functions.txt").read_text("ascii").split())
"""What Spark has of functions, less those of REFUSED."""

_GENERATOR = TDengine.Generator
_WRITTEN = {"quantile": "percentile"}
"""Functions that sqlglot calls otherwise than Spark."""


def names_of(call: exp.Expr) -> list[str]:
    """Return the names of a function in a statement or in Spark, in lower case; none of another node."""
    anonymous = isinstance(call, (exp.Anonymous, exp.AnonymousAggFunc))
    names = [call.name] if anonymous else call.sql_names() if isinstance(call, exp.Func) else []
    return [_WRITTEN.get(name.lower(), name.lower()) for name in names]


def foreign_calls(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the calls of what is not Spark's, nor read or written by sqlglot as Spark's, by name."""
    for node in tree.find_all(exp.Func):
        if NAME in node.meta or _is_written(node):
            continue
        names = names_of(node)
        if not HARMLESS.intersection(names):
            yield names[0], node


def _is_written(node: exp.Func) -> bool:
    """Return whether sqlglot has a way of its own to write a call in Spark's SQL."""
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return False
    return type(node) in _GENERATOR.TRANSFORMS or hasattr(_GENERATOR, f"{node.key}_sql")
