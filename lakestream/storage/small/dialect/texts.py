"""Texts: where one is compared, chosen or joined, and what DuckDB would read in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.language.common.templates import put_in_place
from lakestream.storage.small.dialect.known import TEXTS, macro
from lakestream.storage.small.kinds import DAY, DOUBLE, INSTANT, WHOLE, checked, kind_of, operands
from lakestream.storage.small.objects import joined

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00(:00)?)?)?")
_EXACT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{0,5}[1-9])?")
"""An instant as Spark writes it."""
NUMERIC_TEXT = re.compile(r"\s*+[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?\s*")


def _is_read(text: exp.Expr) -> bool:
    """Return whether DuckDB would read a text as a number or a time, beside such."""
    return any(form.fullmatch(text.name) for form in (NUMERIC_TEXT, _ISO))


def _is_text(value: object) -> bool:
    return isinstance(value, exp.Literal) and value.is_string and not _ISO.fullmatch(value.name)


def _is_written(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and value.is_string and not _EXACT.fullmatch(value.name)


def _text(value: exp.Expr) -> exp.Expr:
    return checked(value, "ls_string")


def _compared(node: exp.Expr) -> exp.Expr:
    """Have a text that is written be compared with texts, or with times where it is one in full."""
    texts = [one for one in (node.this, node.args.get("expression"), *node.expressions) if _is_text(one)]
    if texts:
        for name in ("this", "expression"):
            side = node.args.get(name)
            if isinstance(side, exp.Expr) and not _is_text(side):
                node.set(name, _text(side))
    elif isinstance(node, exp.In) and any(map(_is_written, node.expressions)):
        # To Spark what is among texts is a text, to DuckDB a time where these are some.
        node.set("this", checked(node.this, "ls_written"))
    return _of_one_kind(node) if isinstance(node, exp.In) and node.expressions else node


def _of_one_kind(node: exp.In) -> exp.Expr:
    """Have no text be among others: to Spark all of them are texts, to DuckDB numbers or times."""
    others = [one for one in node.expressions if not (one.is_string or isinstance(one, exp.Null))]
    if len(others) == len(node.expressions) and all(map(_is_number, others)):
        node.set("this", checked(node.this, "ls_no_text"))
    else:
        for one in others:
            put_in_place(one, macro("ls_beside", one.copy(), node.this.copy()))
    return node


def _is_number(value: exp.Expr) -> bool:
    return value.is_number or kind_of(value) in (WHOLE, DOUBLE)


def _of_text(node: exp.Expr) -> exp.Expr:
    """Have a function of a text take nothing else."""
    node.set("this", _text(node.this))
    return exp.cast(node.copy(), "INT") if isinstance(node, exp.Length) else node


def _of_texts(node: exp.Expr) -> exp.Expr:
    """Have values be texts where one is written that DuckDB would read as a number or a time beside such.

    What chooses them is a BOOLEAN, but for what a CASE compares with one value.
    """
    is_part = isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
    if isinstance(node, exp.If) and not (is_part and node.parent and node.parent.this is not None):
        node.set("this", checked(node.this, "ls_truth"))
    values = [] if is_part else [one for one in operands(node) if not isinstance(one, exp.Null)]
    texts = [one for one in values if isinstance(one, exp.Literal) and one.is_string]
    if any(map(_is_read, texts)):
        for value in values:
            new = checked(value, "ls_string")
            if new is not value:
                value.replace(new)
    return node


def _concatenated(node: exp.Expr) -> exp.Expr:
    listed = [node.expression] if isinstance(node, exp.DPipe) else node.expressions
    values = [*listed] if isinstance(node, exp.Concat) else [node.this, *listed]
    first, *others = map(_piece, values)
    return joined(first, *others or [exp.Literal.string("")])


def _of_letters(node: exp.Expr) -> exp.Expr:
    """Have letters be those of ASCII, which both have in capitals and small ones alike."""
    node.set("this", macro("ls_ascii", _text(node.this)))
    return node


def _trimmed(node: exp.Expr) -> exp.Expr:
    """Take off spaces, and no other blanks."""
    names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
    return macro(names.get(node.text("position"), "trim"), _text(node.this), exp.Literal.string(" "))


def _replaced(node: exp.Expr) -> exp.Expr:
    node.set("this", _text(node.this))
    node.set("replacement", node.args.get("replacement") or exp.Literal.string(""))
    return node


def _piece(value: exp.Expr) -> exp.Expr:
    """Return what is joined: lists, and texts as Spark writes them, which DuckDB does not of fractions."""
    if isinstance(value, exp.Array | exp.ArrayFilter | exp.Transform):
        return value
    return macro("ls_text", value) if kind_of(value) in (INSTANT, DAY) else checked(value, "ls_part")


REWRITES: Rewrites = {
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In), _compared),
    **dict.fromkeys(TEXTS, _of_text),
    **dict.fromkeys((exp.If, exp.Case, exp.Array, exp.Coalesce, exp.Greatest, exp.Least), _of_texts),
    **dict.fromkeys((exp.Upper, exp.Lower), _of_letters),
    exp.Trim: _trimmed,
    exp.Replace: _replaced,
    **dict.fromkeys((exp.Concat, exp.DPipe, exp.ArrayConcat), _concatenated),
}
