"""What Spark refuses of a statement, in a sentence, and at the name that it does not know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.unknown import FUNCTIONS, unknown_column, unknown_function
from lakestream.engine.base.misplaced import misplaced, part_of, plain_sentence
from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.functions import Meaning
from lakestream.language.common.source import place_of
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, parse_query, place_in
from lakestream.storage.tables.table import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakestream.compute.unknown import Columns
    from lakestream.compute.windows.calculation import Calculation
    from lakestream.errors import Place
    from lakestream.language.model import Fragment

_UNKNOWN = {
    "UNRESOLVED_COLUMN": ("column", "objectName"),
    "UNRESOLVED_ROUTINE": ("function", "routineName"),
}
"""Spark's conditions for a name that it does not know: what it names, and the parameter with the name."""

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ([^\n]*)")
_PART = re.compile(r"`((?:[^`]|``)*)`")


def spark_message(error: Exception) -> str:
    r"""Return the sentence of a Spark error: without its plan and stack.

    One that only says that a part of a query failed is told by what that part failed of.

    >>> spark_message(Exception("thrown in awaitResult: \nCaused by: E: [OVERFLOW] Too much.\n at x"))
    '[OVERFLOW] Too much'
    """
    first, named = first_line(error), _CONDITION.findall(str(error))
    if named and not _CONDITION.search(first):
        condition, sentence = named[-1]
        first = f"[{condition}] {sentence}"
    return first.split("; line ")[0].rstrip(".")


def refused(
    code: str,
    what: str,
    fragment: Fragment,
    error: Exception,
    *,
    columns: Iterable[str] = (),
    rewritten: bool = False,
) -> StatementError:
    """Return the error for an expression or a query of a statement (``what``) that Spark refuses.

    Where Spark does not know a name, the place is the name's; of a fragment that was ``rewritten``, whose
    names stand elsewhere in the statement, it is the whole. ``columns`` are those that there are.
    """
    unknown = _unknown(error)
    if unknown is None:
        sentence, part = _explained(fragment, error)
        place = place_of(fragment) if part is None or rewritten else place_in(fragment, part)
        return StatementError(code, f"{what} cannot be evaluated: {sentence}", place=place)
    kind, name = unknown
    node = None if rewritten else _named(fragment, kind, name)
    place = place_of(fragment) if node is None else place_in(fragment, node)
    return _not_there(code, what, kind, name, columns if kind == "column" else FUNCTIONS, place)


def refuse_unknown(
    code: str,
    what: str,
    fragment: Fragment,
    query: Calculation | None,
    columns_of: Columns,
    *,
    functions: bool,
    rewritten: bool = False,
) -> None:
    """Raise what :func:`refused` returns for a name that Spark does not know, before it is asked.

    ``query`` is what the fragment was compiled to, None where it could not be; ``columns_of`` gives the
    columns of a table that it names; ``functions``: Spark has none that are not on the list. Names that
    Spark may know are left to it.
    """
    tree = parse_query(fragment)
    unknown = unknown_column(tree, columns_of, query.scope.placeholders if query is not None else ())
    if unknown is None and functions and query is not None:
        unknown = unknown_function(tree, query.query)
    if unknown is not None:
        place = place_of(fragment) if rewritten else place_in(fragment, unknown.node)
        raise _not_there(code, what, unknown.kind, unknown.name, unknown.known, place)


def refuse_unknown_functions(clause: str, fragment: Fragment) -> None:
    """Raise what :func:`refused` returns for a function in an expression that is on no list of Spark's."""
    written, meaning = parse_expression(fragment), Meaning("UTC")
    unknown = unknown_function(written, in_spark(written.copy(), meaning, fragment))
    if unknown is not None:
        place = place_in(fragment, unknown.node)
        raise _not_there("EXPRESSION_INVALID", clause, unknown.kind, unknown.name, unknown.known, place)


def _not_there(
    code: str, what: str, kind: str, name: str, known: Iterable[str], place: Place
) -> StatementError:
    said = f"{what} cannot be evaluated: there is no {kind} {name}"
    error = StatementError(code, said, hint=did_you_mean(name, known), place=place)
    error.unknown = kind
    return error


def failed(code: str, what: str, fragment: Fragment, error: Exception) -> StatementError | None:
    """Return the error for a query that fails over its rows; None where Spark names no condition for it."""
    named = _CONDITION.findall(str(error))
    if not named:
        return None
    condition, sentence = named[-1]
    found = misplaced(condition, {}, _tree(fragment))
    said, part = found if found is not None else (plain_sentence(sentence), None)
    place = place_of(fragment) if part is None else place_in(fragment, part)
    return StatementError(code, f"{what} cannot be evaluated: {said}", place=place)


def _explained(fragment: Fragment, error: Exception) -> tuple[str, exp.Expr | None]:
    """Return what Spark says of a fragment in a sentence, and the part that it is about."""
    from pyspark.errors import PySparkException

    said = plain_sentence(spark_message(error))
    if not isinstance(error, PySparkException):
        return said, None
    tree = _tree(fragment)
    parameters = error.getMessageParameters() or {}
    found = misplaced(error.getCondition() or "", parameters, tree)
    return found if found is not None else (said, part_of(tree, parameters))


def _tree(fragment: Fragment) -> exp.Expr:
    return parse_query(fragment) if _is_query(fragment) else parse_expression(fragment)


def _unknown(error: Exception) -> tuple[str, str] | None:
    """Return what Spark does not know: a column or a function, and its name."""
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException):
        return None
    condition = (error.getCondition() or "").partition(".")[0]
    if condition not in _UNKNOWN:
        return None
    kind, parameter = _UNKNOWN[condition]
    quoted = (error.getMessageParameters() or {}).get(parameter, "")
    name = ".".join(part.replace("``", "`") for part in _PART.findall(quoted))
    # The query that Spark has shows functions in capitals, however they are written.
    return kind, name.lower() if kind == "function" else name


def _named(fragment: Fragment, kind: str, name: str) -> exp.Expr | None:
    """Return the first column or function of the fragment with a name; None where none has it."""
    tree = _tree(fragment)
    wanted, sort = name.lower().split(".")[-1], exp.Column if kind == "column" else exp.Anonymous
    return next((node for node in tree.find_all(sort) if node.name.lower() == wanted), None)


def _is_query(fragment: Fragment) -> bool:
    return fragment.sql.lstrip("( \n\t").upper().startswith(("SELECT", "WITH"))


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the errors with which Spark refuses a query; none where it is not installed.

    What is asked of DuckDB instead is asked in the same words, and must not fail for the want of Spark.
    """
    try:
        from pyspark.errors import PySparkException
    except ModuleNotFoundError:
        return ()
    return (PySparkException,)


def java_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a query that Spark computes, with those of its JVM; as :func:`spark_errors`."""
    try:
        from py4j.protocol import Py4JJavaError
    except ModuleNotFoundError:
        return ()
    return (*spark_errors(), Py4JJavaError)
