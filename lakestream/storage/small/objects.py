"""Spark's to_json() as the text that joins its fields."""

from __future__ import annotations

from sqlglot import exp

from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.functions.jsons import json_text


def json_object(node: exp.Expr) -> exp.Expr:
    """Return to_json() of fields that are written as the text that joins theirs; raises NotExactError."""
    options = node.args.get("options")
    value = node.this
    if not isinstance(value, exp.Struct):
        raise NotExactError("JSON of a value that is not written field by field")
    if options is None:
        return _object(value, nulls=False)
    written = [one.name for side in ("keys", "values") for one in options.args[side].expressions]
    if written != ["ignoreNullFields", "false"]:
        raise NotExactError(f"to_json() with {written}")
    return _object(value, nulls=True)


def _object(struct: exp.Expr, *, nulls: bool) -> exp.Expr:
    fields = [_field(one, nulls=nulls) for one in struct.expressions]
    listed = exp.Anonymous(this="concat_ws", expressions=[exp.Literal.string(","), *fields])
    return joined(exp.Literal.string("{"), listed, exp.Literal.string("}"))


def _field(field: exp.Expr, *, nulls: bool) -> exp.Expr:
    """Return a field with its name; NULL, which is left out, for a NULL without ``nulls``."""
    if not isinstance(field, exp.PropertyEQ):
        raise NotExactError("JSON of a field without a name")
    name, value = exp.Literal.string(f"{json_text(field.name)}:"), field.expression
    if isinstance(value, exp.Struct):
        return joined(name, _object(value, nulls=nulls))
    shown = exp.Anonymous(this="ls_json", expressions=[value.copy()])
    if nulls:
        return joined(name, shown)
    there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=there, true=joined(name, shown))])


def joined(first: exp.Expr, *others: exp.Expr) -> exp.Expr:
    """Return texts, or lists, one behind the other: NULL where one of them is NULL."""
    first = _closed(first)
    for other in map(_closed, others):
        first = exp.DPipe(this=first, expression=other, safe=False)
    return exp.paren(first)


def _closed(part: exp.Expr) -> exp.Expr:
    """Return a part in brackets where it would be read together with what stands beside it."""
    is_open = isinstance(part, exp.Binary | exp.Unary | exp.Predicate) and not isinstance(part, exp.Paren)
    return exp.paren(part) if is_open else part
