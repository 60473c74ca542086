"""Draws the rules of statements as railroad diagrams."""

from __future__ import annotations

import io

import railroad

from tools.site.grammar import Choice, Name, Node, Optional, Repeated, Sequence, Word, rules

_WIDEST = 5
"""The parts of a sequence that stand beside each other; a longer one goes on in the next line."""


def diagram(name: str) -> str:
    """Return the diagram of a rule as SVG."""
    out = io.StringIO()
    railroad.Diagram(_lines(rules()[name])).writeStandalone(out.write, css=railroad.DEFAULT_STYLE)
    return out.getvalue()


def _item(node: Node) -> railroad.DiagramItem:
    if isinstance(node, Word | Name):
        return (railroad.Terminal if isinstance(node, Word) else railroad.NonTerminal)(node.text)
    if isinstance(node, Optional | Repeated):
        kind = railroad.Optional if isinstance(node, Optional) else railroad.ZeroOrMore
        return kind(_item(node.part))
    if isinstance(node, Choice):
        return railroad.Choice(0, *map(_item, node.parts))
    return railroad.Sequence(*map(_item, node.parts))


def _lines(node: Node) -> railroad.DiagramItem:
    """Return a rule; a long sequence goes on in further lines."""
    if not isinstance(node, Sequence) or len(node.parts) <= _WIDEST:
        return _item(node)
    parts = [*map(_item, node.parts)]
    lines = [parts[at : at + _WIDEST] for at in range(0, len(parts), _WIDEST)]
    return railroad.Stack(*(railroad.Sequence(*line) for line in lines))
