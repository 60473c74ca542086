"""Expressions over paths: their operands taken out, the rest a tree of sqlglot.

``avg(s1) + 1`` becomes the text ``_f0(_p0) + 1`` with the path ``s1`` and the call ``avg``; times become
``_at('…')``, ``_now()`` and ``_span(µs)``, and the time of a point the column ``_time``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError, did_you_mean
from lakestream.language.common.functions import wrong_number
from lakestream.language.common.source import Source, place_of
from lakestream.language.expressions.parsing import parse_expression
from lakestream.language.iotdb.functions import AGGREGATES, CAST_TYPES, SCALARS
from lakestream.language.iotdb.literals import (
    WORD_CHARACTERS,
    is_before_star,
    read_node,
    span_of,
    written_moment,
)
from lakestream.language.iotdb.paths import ANY_NODE, ROOT, Path
from lakestream.language.model import Fragment
from lakestream.language.reading.identifiers import take_identifier
from lakestream.language.reading.reader import Reader
from lakestream.language.reading.words import Kind, read_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakestream.language.reading.words import Word

TIME, NOW, AT, SPAN = "_time", "_now", "_at", "_span"
END_TIME, KEEP = "_end", "_keep"
_KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "REGEXP", "BETWEEN", "TRUE", "FALSE", "ESCAPE"}
    | {"CONTAINS"}
)
_IN_CASE = frozenset({"WHEN", "THEN", "ELSE", "END"})
_BEHIND_A_NAME = frozenset("+-*/%<>=!&|,.)")
_SPARK_KEYWORDS = {"REGEXP": "RLIKE", "CONTAINS": "IN"}
_UNBUILT = frozenset({"DISTINCT"})
_OPERATORS = {"&&": "AND", "&": "AND", "||": "OR", "|": "OR", "!": "NOT", "==": "="}
_FUSED = frozenset("<>=!|&")
_PLAIN_NUMBER = re.compile(r"[0-9]*+\.?[0-9]*+([eE][+-]?[0-9]++)?")
_OPERAND = re.compile(r"_([pf])(\d+)\b")
_ATTRIBUTE = re.compile(r"'([^'\\]*)' = '([^'\\]*)'")
_TAKEN = re.compile(r"\b_(time|keep)\b")
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Paren)
_CONDITIONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not)
_PREDICATES = (exp.In, exp.Between, exp.Is, exp.Like, exp.RegexpLike)
_LEAVES = (exp.Literal, exp.Boolean, exp.Null, exp.Column, exp.Identifier, exp.Anonymous)
_KNOWN = (*_ARITHMETIC, *_CONDITIONS, *_PREDICATES, *_LEAVES, exp.Case, exp.If)
_MOST_OF_K = 1_000


@dataclass(frozen=True)
class Expression:
    """An expression as text over numbered operands: ``_p0`` is a path, ``_f0(…)`` a call."""

    text: str
    paths: tuple[Path, ...]
    calls: tuple[str, ...]
    fragment: Fragment = field(compare=False)

    def tree(self) -> exp.Expr:
        """Return the tree; its columns are ``_p0``, ``_p1``, … and ``_time``."""
        return parse_expression(Fragment(self.text))

    def shown(self, paths: Sequence[str]) -> str:
        """Return the expression as a column is called: with these paths in the place of its own.

        >>> read_expression(Fragment("avg( s1 )+1")).shown(["root.d.s1"])
        'avg(root.d.s1) + 1'
        """

        def operand(found: re.Match[str]) -> str:
            number = int(found[2])
            return paths[number] if found[1] == "p" else self.calls[number]

        if self.is_end_time:
            return "__endTime"
        text = _ATTRIBUTE.sub(r'"\1"="\2"', self.text)
        return _OPERAND.sub(operand, _TAKEN.sub(r"\1", text))

    @property
    def aggregates(self) -> bool:
        """Whether it calls an aggregate."""
        return any(call in AGGREGATES for call in self.calls)

    @property
    def around(self) -> str | None:
        """The function it calls that looks at other rows than its own, such as ``diff``; None for none."""
        return next((call for call in self.calls if call in SCALARS and SCALARS[call].over_rows), None)

    @property
    def is_end_time(self) -> bool:
        """Whether it is ``__endTime``, the time of the last row of a window."""
        return self.text == END_TIME

    @property
    def counts_times(self) -> bool:
        """Whether it is ``count_time(*)``, which is over all series at once."""
        return "count_time" in self.calls

    @property
    def uses_time(self) -> bool:
        """Whether it looks at the time of a point; ``max_by(time, s)`` gives one and does not."""
        tree = self.tree()
        given = {
            id(call.expressions[0])
            for call in tree.find_all(exp.Anonymous)
            if call_of(self, call) in ("max_by", "min_by")
        }
        return any(column.name == TIME and id(column) not in given for column in tree.find_all(exp.Column))

    def path_numbers(self, tree: exp.Expr) -> list[int]:
        """Return which paths a part of the tree names."""
        return [number for column in tree.find_all(exp.Column) if (number := number_of(column)) is not None]

    def error(self, code: str, message: str, hint: str = "") -> StatementError:
        """Return an error at the place of the expression."""
        return StatementError(code, message, hint=hint, place=place_of(self.fragment))


def number_of(column: exp.Expr) -> int | None:
    """Return which path a column stands for, None for the time."""
    return int(column.name[2:]) if column.name.startswith("_p") else None


def call_of(expression: Expression, node: exp.Expr) -> str | None:
    """Return the function that a node calls by its name, None for anything else."""
    if isinstance(node, exp.Anonymous) and node.name.startswith("_f"):
        return expression.calls[int(node.name[2:])]
    return None


def arguments_of(node: exp.Expr) -> tuple[list[exp.Expr], dict[str, str]]:
    """Return the arguments of a call, and its attributes such as ``'k'='2'``."""
    arguments, attributes = [], {}
    for part in node.expressions:
        if isinstance(part, exp.EQ) and _is_text(part.this) and _is_text(part.expression):
            attributes[part.this.name] = part.expression.name
        else:
            arguments.append(part)
    return arguments, attributes


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def aggregate_calls(expression: Expression, tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the calls of aggregates in a tree."""
    for node in tree.find_all(exp.Anonymous):
        if call_of(expression, node) in AGGREGATES:
            yield node


def read_expression(f: Fragment) -> Expression:
    """Read an expression. Raises StatementError SYNTAX, SERIES_PATH or NOT_SUPPORTED with its place."""
    source = Source.of_fragment(f)
    scan = _Scan(Reader(source, read_words(source, WORD_CHARACTERS)))
    scan.run()
    found = Expression(_spaced(scan.parts), tuple(scan.paths), tuple(scan.calls), f)
    try:
        tree = found.tree()
    except StatementError as error:
        raise StatementError(error.code, error.message, hint=error.hint, place=place_of(f)) from None
    _check(found, tree)
    return found


class _Scan:
    """Goes through the words of an expression and takes its operands out."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.parts: list[str] = []
        self.paths: list[Path] = []
        self.calls: list[str] = []
        self._wants_operand = True
        self._cases = 0

    def run(self) -> None:
        while not self.reader.done:
            word = self.reader.peek()
            if word.kind is Kind.SYMBOL and not (word.text == "*" and self._wants_operand):
                self._symbol()
            elif self._is_keyword(word):
                keyword = self.reader.take().text.upper()
                self._cases += (keyword == "CASE") - (keyword == "END")
                self._add(_SPARK_KEYWORDS.get(keyword, keyword))
                self._wants_operand = keyword not in {"NULL", "TRUE", "FALSE", "END"}
            elif self._calls("cast") and word.is_word("AS"):
                self._cast_type()
            elif self._calls("substring") and (word.is_word("FROM") or word.is_word("FOR")):
                self.reader.take()
                self._add(",")
                self._wants_operand = True
            else:
                self._operand(word)
                self._wants_operand = False

    def _is_keyword(self, word: Word) -> bool:
        """Tell whether a word is one of the language; those of CASE may be names elsewhere."""
        text = word.text.upper()
        if word.kind is not Kind.WORD:
            return False
        if text == "CASE":
            following = self.reader.peek(1)
            return following.kind is not Kind.END and following.text not in _BEHIND_A_NAME
        return text in _KEYWORDS or (self._cases > 0 and text in _IN_CASE)

    def _add(self, part: str) -> None:
        self.parts.append(part)

    def _calls(self, name: str) -> bool:
        """Tell whether this is the function that was called last."""
        return bool(self.calls) and self.calls[-1] == name

    def _cast_type(self) -> None:
        """Take ``AS type``: it becomes the attribute ``type``."""
        self.reader.take()
        name, _ = take_identifier(self.reader, "a type")
        self.parts += [",", "'type'", "=", exp.Literal.string(name).sql("spark")]

    def _symbol(self) -> None:
        word = self.reader.take()
        text = word.text
        while text[-1] in _FUSED and self._fuses(word, text):
            word = self.reader.take()
            text += word.text
        self._add(_OPERATORS.get(text, text))
        self._wants_operand = text != ")"

    def _fuses(self, last: Word, text: str) -> bool:
        following = self.reader.peek()
        joined = text + following.text
        is_operator = joined in _OPERATORS or joined in ("<=", ">=", "!=", "<>")
        return following.kind is Kind.SYMBOL and following.start == last.end and is_operator

    def _operand(self, word: Word) -> None:
        if word.kind is Kind.STRING:
            self._add(exp.Literal.string(self.reader.take().text).sql("spark"))
        elif word.kind is Kind.NUMBER:
            self._number(word)
        elif word.kind is Kind.WORD and self.reader.peek(1).is_symbol("("):
            self._call(word)
        elif word.kind is Kind.WORD and word.text.upper() in _UNBUILT:
            raise self.reader.unsupported(word.text.upper())
        elif word.is_word("__ENDTIME"):
            self.reader.take()
            self._add(END_TIME)
        elif self._calls("count_if") and word.is_word("KEEP") and self.reader.peek(1).text[:1] in _FUSED:
            self.reader.take()
            self._add(KEEP)
        elif (word.is_word("TIME") or word.is_word("TIMESTAMP")) and not self.reader.peek(1).is_symbol("."):
            self.reader.take()
            self._add(TIME)
        else:
            self._path()

    def _number(self, word: Word) -> None:
        moment = written_moment(self.reader)
        if moment is not None:
            self._add(f"{AT}('{moment}')")
            return
        self.reader.take()
        if _PLAIN_NUMBER.fullmatch(word.text):
            self._add(word.text)
            return
        span = span_of(word.text)
        if span is None or span.months:
            raise self.reader.error("BAD_DURATION", f"{word.text} is no number and no duration", word=word)
        self._add(f"{SPAN}({span.micros})")

    def _call(self, word: Word) -> None:
        self.reader.take()
        name = word.text.lower()
        if name == "now":
            self.reader.expect_symbol("(")
            self.reader.expect_symbol(")")
            self._add(f"{NOW}()")
            return
        if name not in AGGREGATES and name not in SCALARS:
            hint = did_you_mean(name, [*AGGREGATES, *SCALARS])
            raise self.reader.unsupported(f"the function {word.text}", word=word, hint=hint)
        self._add(f"_f{len(self.calls)}")
        self.calls.append(name)

    def _path(self) -> None:
        first = self.reader.peek()
        nodes = [self._node()]
        while self.reader.sees_symbol("."):
            self.reader.take()
            nodes.append(self._node())
        if len(nodes) > 1 and nodes[0] == ROOT:
            hint = "FROM says where a path begins"
            raise self.reader.error("SERIES_PATH", "no path begins with root here", word=first, hint=hint)
        path = Path(tuple(nodes))
        if path not in self.paths:
            self.paths.append(path)
        self._add(f"_p{self.paths.index(path)}")

    def _node(self) -> str:
        """Take a node; a star that two operands stand around is a multiplication."""
        reader = self.reader
        words, at = reader.words, reader.at
        end = at + 1
        while end < len(words) and words[end].start == words[end - 1].end and is_before_star(words[end]):
            end += 1
        if end < len(words) and words[end].is_symbol("*") and _is_factor(words, end):
            before = Reader(reader.source, words[:end])
            before.at = at
            node = read_node(before, "a path")
            reader.at = before.at
            return node
        return read_node(reader, "a path", wildcards=True)


def _is_factor(words: list[Word], star: int) -> bool:
    """Tell whether a star behind a name multiplies: an operand follows."""
    if star + 1 >= len(words):
        return False
    following = words[star + 1]
    if following.kind is Kind.SYMBOL:
        return following.text in "(-+"
    return not (following.kind is Kind.WORD and following.text.upper() in _KEYWORDS)


def _spaced(parts: list[str]) -> str:
    """Join the parts as IoTDB shows an expression: blanks around operators, none within brackets."""
    text, is_sign = "", False
    for part, before in zip(parts, ["(", *parts], strict=False):
        tight = not text or text.endswith("(") or part in (")", ",") or is_sign
        is_sign = part in "+-" and not (before == ")" or _OPERAND.fullmatch(before) or before[-1].isalnum())
        opens = part == "(" and re.search(r"_f\d+$", text) is not None
        text += part if tight or opens else f" {part}"
    return text


def _check(found: Expression, tree: exp.Expr) -> None:
    for node in tree.walk():
        if not isinstance(node, _KNOWN):
            what = type(node).__name__.upper()
            raise NotSupportedError(f"{what} in an expression over series", place=place_of(found.fragment))
        if isinstance(node, exp.Case):
            _check_case(found, node)
        call = call_of(found, node)
        if call is not None:
            _check_call(found, node, call)
    if any(column.name == END_TIME for column in tree.find_all(exp.Column)) and not found.is_end_time:
        raise found.error("ARGUMENT_KIND", "__endTime stands alone in SELECT")


def _check_case(found: Expression, case: exp.Case) -> None:
    for node in case.find_all(exp.Anonymous):
        call = call_of(found, node)
        if call in AGGREGATES or (call in SCALARS and SCALARS[call].over_rows):
            raise found.error("CASE_INVALID", f"CASE takes no {call}", hint="an aggregate may take a CASE")


def _check_call(found: Expression, node: exp.Expr, call: str) -> None:
    function = AGGREGATES.get(call) or SCALARS[call]
    arguments, attributes = arguments_of(node)
    if said := wrong_number(call, len(arguments), function.least, function.most):
        raise found.error("ARGUMENT_COUNT", said)
    missing = [name for name in function.needs if name not in attributes]
    if missing:
        raise found.error(
            "ATTRIBUTE_MISSING", f"{call} needs the attribute {missing[0]}", hint=f"'{missing[0]}'='…'"
        )
    unknown = [name for name in attributes if not function.knows(name)]
    if unknown:
        raise found.error("ATTRIBUTE_UNKNOWN", f"{call} has no attribute {unknown[0]}")
    _check_values(found, call, attributes)
    if not found.path_numbers(node):
        raise found.error("ARGUMENT_KIND", f"{call} is over a series", hint=f"{call}(s1)")
    if call == "count_time" and (found.text != "_f0(_p0)" or found.paths != (Path((ANY_NODE,)),)):
        raise found.error("ARGUMENT_KIND", "count_time takes * alone", hint="count_time(*)")
    _check_nesting(found, node, call)


def _check_nesting(found: Expression, node: exp.Expr, call: str) -> None:
    inner = {call_of(found, one) for one in node.find_all(exp.Anonymous) if one is not node}
    around = {one for one in inner if one in SCALARS and SCALARS[one].over_rows}
    if call in AGGREGATES and inner & AGGREGATES.keys():
        raise found.error("AGGREGATE_NESTED", f"{call} of an aggregate: an aggregate is over points")
    if around and (call in AGGREGATES or SCALARS[call].over_rows):
        raise found.error("FUNCTION_NESTED", f"{call} of {min(map(str, around))}: it takes points")


def _check_values(found: Expression, call: str, attributes: dict[str, str]) -> None:
    """Check the values of attributes."""
    for name, value in attributes.items():
        wanted = ""
        if name in ("threshold", "lower", "upper") and not _is_number(value):
            wanted = "a number"
        elif name == "k" and not (value.isascii() and value.isdigit() and 0 < int(value) <= _MOST_OF_K):
            wanted = f"a whole number from 1 to {_MOST_OF_K}"
        elif name in ("ignoreNull", "reverse", "series_behind") and value.lower() not in ("true", "false"):
            wanted = "true or false"
        elif name == "type" and value.upper() not in CAST_TYPES:
            wanted = f"one of {', '.join(CAST_TYPES)}"
        elif name == "regex" and not _is_pattern(value):
            wanted = "a regular expression"
        if wanted:
            raise found.error("ATTRIBUTE_VALUE", f"{name} of {call} is {wanted}, not {value!r}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
