"""Expressions and queries as trees of sqlglot, in lakestream's dialect."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError

from lakestream.errors import NotSupportedError, StatementError, too_deep
from lakestream.language.common.dialect import (
    COUNTED,
    DURATION_FUNCTION,
    SparkFunctions,
    TDengine,
    mark_clock,
)
from lakestream.language.common.query_clauses import FOREIGN_CLAUSES, ForeignClauseError
from lakestream.language.common.source import Source, place_of
from lakestream.language.common.spark_parser import tell_tables_apart
from lakestream.language.expressions.inner_windows import check_slices, duration_of, read_window
from lakestream.language.expressions.kept import keep_meaning
from lakestream.language.model import Fragment
from lakestream.language.names import FreeNames, name_of_text
from lakestream.language.reading.words import Kind, read_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Token

    from lakestream.errors import Place

MAX_DEPTH = 150
"""Levels of a tree: deeper ones would exhaust Python's stack when SQL is made of them."""

MAX_BRANCHES = 2_000
"""Of a CASE: the code that Spark makes of more takes it memory by their square, until it dies."""

_LONGEST_KEPT = 200_000
"""Characters of a query whose tree is kept for a while: one has about a hundred bytes for each."""

_DIALECTS = {False: TDengine(), True: SparkFunctions()}
_VERSION = re.compile(r"[vV][0-9]+|[0-9]{17}")


def parse_expression(f: Fragment) -> exp.Expr:
    """Return the tree of a scalar expression or condition.

    A duration literal is ``exp.Anonymous`` named ``_ls_duration`` over a string; ``%%tbname`` and
    ``%%1`` are unquoted columns of that name. Raises StatementError with the place in the statement.
    """
    return _parse(f, exp.Condition)


def parse_query(f: Fragment) -> exp.Query:
    """Return the tree of a query (SELECT, a set operation, VALUES, each with its WITH).

    As :func:`parse_expression`; ``%%trows`` and ``%%tbname`` in FROM are tables of that name. TDengine's
    clauses at the end of a select are those of :mod:`lakestream.language.common.query_clauses`, read by
    :func:`lakestream.language.expressions.inner_windows.read_window`. Raises StatementError: FORBIDDEN when
    it is a statement of another kind, NOT_SUPPORTED for clauses of TDengine's queries that are not built.
    """
    # A statement's query is asked for again and again, by who checks, names and rewrites it.
    return _read_query(f) if len(f.sql) > _LONGEST_KEPT else _kept_query(f).copy()


@lru_cache(maxsize=8)
def _kept_query(f: Fragment) -> exp.Query:
    return _read_query(f)


def _read_query(f: Fragment) -> exp.Query:
    tree = _parse(f, None)
    if isinstance(tree, exp.Values):
        tree = _selected(tree)
    if not isinstance(tree, exp.Query):
        raise StatementError("FORBIDDEN", "only a query may stand here", hint="SELECT …", place=place_of(f))
    for among in tree.find_all(exp.In):
        if isinstance(among.expressions and among.expressions[0], exp.Values):
            among.set("query", exp.Subquery(this=_selected(among.expressions[0])))
            among.set("expressions", None)
    for select in tree.find_all(exp.Select):
        if not select.expressions:
            raise StatementError("SYNTAX", "SELECT names no columns", place=place_of(f))
        read_window(select, partial(place_in, f))
        check_slices(select, partial(place_in, f))
    return tree


def _selected(values: exp.Values) -> exp.Select:
    """Return VALUES as a query, in their order and as many as they say."""
    query = exp.select("*").from_(values)
    for name in ("order", "limit", "offset"):
        query.set(name, values.args.get(name))
        values.set(name, None)
    return query


def parse_in(f: Fragment, dialect: Dialect, kind: type[exp.Expr] | None) -> exp.Expr:
    """Return the tree of a fragment in a dialect of its own; ``kind`` as sqlglot takes it, None: a query."""
    return _parse(f, kind, dialect)


def given_name(item: exp.Expr) -> str:
    """Return the name that a query gives a column, its alias or a plain column's own; empty for none."""
    name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else ""
    return "" if name.startswith("%%") else name


def text_of(item: exp.Expr) -> str:
    """Return an expression as text, durations as they are written."""
    return item.transform(_written_duration).sql("spark").lower()


def _written_duration(node: exp.Expr) -> exp.Expr:
    is_duration = isinstance(node, exp.Anonymous) and node.name == DURATION_FUNCTION
    return exp.Var(this=node.meta.get(COUNTED) or node.expressions[0].name) if is_duration else node


def column_names(items: Sequence[exp.Expr]) -> tuple[str, ...]:
    """Return the names that a query's columns are stored under: those given, others made of their text.

    A star, and a function over one, has none. What an output has besides its results, ``tbname``, is no
    column's name.
    """
    names = [given_name(item) for item in items]
    free = FreeNames(["tbname", *names])
    for number, item in enumerate(items):
        if not names[number] and not stands_for_columns(item):
            names[number] = free.take(name_of_text(text_of(item)))
    return tuple(names)


def stands_for_columns(item: exp.Expr) -> bool:
    """Return whether a result stands for all columns: ``*``, or ``last(*)`` and its like (TDengine)."""
    return item.is_star or starred(item) is not None


def starred(item: exp.Expr) -> str | None:
    """Return the function of ``first(*)``, ``last(*)``, ``first_row(*)`` and ``last_row(*)``, else None."""
    if isinstance(item, (exp.First, exp.Last)):
        return item.key if isinstance(item.this, exp.Star) else None
    if isinstance(item, exp.Anonymous) and item.name.lower() in ("first_row", "last_row"):
        return item.name.lower() if [*map(type, item.expressions)] == [exp.Star] else None
    return None


def is_of_a_column(item: exp.Expr) -> bool:
    """Return whether a result is a column, or a field within one: it has the name of what stands last."""
    while isinstance(item, exp.Dot):
        item = item.this
    return isinstance(item, exp.Column)


def is_star_over_shared(select: exp.Select) -> bool:
    """Return whether a star stands for columns that two tables share: Spark puts these first."""
    is_shared = any(
        join.args.get("using") or join.method == "NATURAL" for join in select.args.get("joins") or ()
    )
    return is_shared and any(item.is_star for item in select.selects)


TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
}
"""What says the same as a comparison with its sides changed."""


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """Return the AND-ed parts of a condition; there may be more of them than calls may stand in another."""
    found, left = [], [condition]
    while left:
        part = left.pop().unnest()
        if isinstance(part, exp.And):
            left += [part.right, part.left]
        else:
            found.append(part)
    return found


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Walk the select's own expressions, not those of the queries inside it, innermost last."""
    for node in select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query)):
        if node is not select and not isinstance(node, exp.Query):
            yield node


def only_in_order(select: exp.Select, aggregates: Callable[[exp.Expr], bool]) -> list[exp.Expr]:
    """Return the aggregates of a select that has them in its ORDER BY alone, which Spark refuses.

    ``aggregates`` says of a node whether it is one. None of a select that is grouped, or has further ones.
    """
    order = select.args.get("order")
    if order is None or select.args.get("group"):
        return []
    found = [node for node in own_nodes(select) if aggregates(node)]
    return found if all(node.find_ancestor(exp.Order) is order for node in found) else []


def place_in(f: Fragment, node: exp.Expr) -> Place:
    """Return the place of a node of the fragment's tree: its own, its leftmost part's, or the whole."""
    parts = (
        [node.meta] if "start" in node.meta else [part.meta for part in node.walk() if "start" in part.meta]
    )
    if not parts:
        return place_of(f)
    leftmost = min(parts, key=lambda meta: int(meta["start"]))
    if f.written:
        return _place_as_written(f, leftmost["start"], leftmost["end"] + 1)
    return Source.of_fragment(f).place(leftmost["start"], leftmost["end"] + 1)


def _place_as_written(f: Fragment, start: int, end: int) -> Place:
    """Return the place of a word of what a fragment says in other words, where it was written."""
    word = f.sql[start:end].strip("`").lower()
    before = [at for at in _places(f.sql).get(word, ()) if at[0] < start]
    there = _places(f.written).get(word)
    if not there:
        return place_of(f)
    at = there[min(len(before), len(there) - 1)]
    return Source.of_fragment(replace(f, sql=f.written)).place(*at)


@lru_cache(maxsize=16)
def _places(sql: str) -> dict[str, list[tuple[int, int]]]:
    """Return where each word of a text stands."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for token in _located_tokens(sql):
        found[token.text.lower()].append((token.start, token.end + 1))
    return found


def _parse(f: Fragment, kind: type[exp.Expr] | None, dialect: Dialect | None = None) -> exp.Expr:
    source = Source.of_fragment(f)
    _refuse_symbols(source)
    parser = (dialect or _DIALECTS[f.spark]).parser(error_level=ErrorLevel.IMMEDIATE)
    try:
        tokens = _located_tokens(f.sql)
        trees = parser.parse_into(kind, tokens, f.sql) if kind else parser.parse(tokens, f.sql)
    except ForeignClauseError as error:
        raise NotSupportedError(
            f"{error.clause} in a query",
            hint=FOREIGN_CLAUSES.get(error.clause, ""),
            place=source.place(error.start, error.end),
        ) from None
    except ParseError as error:
        raise _syntax_error(source, error) from None
    except TokenError:
        raise StatementError("SYNTAX", "the text cannot be read", place=place_of(f)) from None
    except RecursionError:
        raise too_deep(place_of(f)) from None
    except (
        SqlglotError,
        ValueError,
        AttributeError,
        TypeError,
        IndexError,
        KeyError,
        AssertionError,
    ) as error:
        # sqlglot's parser meets some malformed input with a builtin error instead of its own.
        raise StatementError("SYNTAX", "the text is not understood", place=place_of(f)) from error
    if len(trees) != 1 or trees[0] is None:
        raise StatementError("SYNTAX", "one expression or query may stand here", place=place_of(f))
    tree = keep_meaning(_with_meaning(f, trees[0]))
    tell_tables_apart(tree)
    if not f.spark:
        mark_clock(tree)
    _check_depth(f, tree)
    _check_branches(f, tree)
    for call in tree.find_all(exp.Anonymous):
        if call.name == DURATION_FUNCTION:
            duration_of(call, "a query", partial(place_in, f))
    return tree


def _with_meaning(f: Fragment, tree: exp.Expr) -> exp.Expr:
    """Put the expressions that names stand for in their place; result columns keep the names."""
    meanings = {name.lower(): text for name, text in f.stands_for}

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.name.lower() not in meanings:
            return node
        meant = parse_expression(Fragment(meanings[node.name.lower()]))
        for part in meant.walk():
            part.meta.pop("start", None)
        meant.meta.update(node.this.meta)
        is_item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        if is_item:
            return exp.alias_(meant, node.name)
        return meant if isinstance(meant, exp.Column) else exp.paren(meant, copy=False)

    return tree.transform(replaced) if meanings else tree


def _refuse_symbols(source: Source) -> None:
    """Refuse what Spark or sqlglot takes for variables and parameters; ``table@v3`` is a version."""
    words = read_words(source)
    for word, following in zip_longest(words, words[1:]):
        at_version = word.text == "@" and following is not None and _VERSION.fullmatch(following.text)
        if word.kind is Kind.SYMBOL and word.text[0] in "${}@?#" and not at_version:
            raise StatementError(
                "SYNTAX",
                f"{word.text} has no meaning here",
                hint="a statement has no variables and no parameters",
                place=source.place(word.start, word.end),
            )


def _located_tokens(sql: str) -> list[Token]:
    """Return the tokens with their offset as column, which is what sqlglot's errors report."""
    found = _DIALECTS[True].tokenize(sql)
    for token in found:
        token.col = token.start
    return found


def _syntax_error(source: Source, error: ParseError) -> StatementError:
    details = error.errors[0] if error.errors else {}
    description = str(details.get("description") or "not understood").rstrip(".")
    message = _plain_words(description)
    start = min(int(details.get("col") or 0), len(source.text))
    length = len(details.get("highlight") or "")
    return StatementError("SYNTAX", message, place=source.place(start, start + length))


def _plain_words(description: str) -> str:
    """Return sqlglot's description without its class names and token dumps."""
    expecting = re.match(r"Expect(?:ing|ed) ([^<]+?)(?: but got\b.*)?$", description, re.DOTALL)
    if expecting:
        return f"expected {expecting[1]}"
    if description.startswith("Required keyword"):
        return "something is missing here"
    # "Invalid expression / Unexpected token" names no more than the place does.
    return "the text is not understood here"


def _check_depth(f: Fragment, tree: exp.Expr) -> None:
    level: list[exp.Expr] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_deep(place_of(f))
        level = _below(level)


def _check_branches(f: Fragment, tree: exp.Expr) -> None:
    for case in tree.find_all(exp.Case):
        if (count := len(case.args["ifs"])) > MAX_BRANCHES:
            raise StatementError(
                "TOO_MANY_BRANCHES",
                f"a CASE has {count:,} branches, and {MAX_BRANCHES:,} are the most",
                hint="put what it tells into a table, and join it",
                place=place_of(f),
            )


def _below(level: list[exp.Expr]) -> list[exp.Expr]:
    """Return the next level; a chain of AND or OR counts once, since sqlglot walks it in a loop."""
    found: list[exp.Expr] = []
    waiting = [child for node in level for child in node.iter_expressions()]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Connector):
            waiting.extend(node.iter_expressions())
        else:
            found.append(node)
    return found
