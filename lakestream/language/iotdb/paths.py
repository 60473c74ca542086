"""Paths of the tree of time series, and patterns over them (IoTDB A1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from lakestream.language.quoting import quoted

ANY_NODE, ANY_NODES = "*", "**"
ROOT = "root"
_BETWEEN = "\0"
FOREIGN = "\u2e80-\u2fff\u3001-\u9fff"
"""The letters beyond ASCII that need no back-ticks, as ranges: those of East Asia, as in IoTDB."""
_PLAIN = re.compile(rf"[A-Za-z0-9_:@#$*{{}}{FOREIGN}]+")
PLACEHOLDER = re.compile(r"\$\{(\d{1,9})\}")
"""A node of the source in INTO."""

_REST = "::"


@dataclass(frozen=True)
class Path:
    """Nodes from the root on (or behind a prefix); ``*`` and ``**`` make it a pattern.

    A node that must be quoted keeps its back-ticks, so that a star in it is a star.
    """

    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.nodes)

    @property
    def device(self) -> Path:
        """All nodes but the last."""
        return Path(self.nodes[:-1])

    @property
    def measurement(self) -> str:
        """The last node."""
        return self.nodes[-1]

    @property
    def is_pattern(self) -> bool:
        """Whether it may stand for several paths."""
        return any(ANY_NODE in node for node in self.nodes if not node.startswith("`"))

    def below(self, prefix: Path) -> Path:
        """Return the path behind a prefix."""
        return Path((*prefix.nodes, *self.nodes))

    def is_below(self, prefix: Path) -> bool:
        """Tell whether the path begins with a prefix (or is that itself)."""
        return self.nodes[: len(prefix.nodes)] == prefix.nodes

    def reaches(self, prefix: Path) -> bool:
        """Tell whether the pattern, or what follows it, may stand for paths below a prefix.

        >>> Path(("root", "*", "t")).reaches(Path(("root", "ln")))
        True
        >>> Path(("root", "sg", "t")).reaches(Path(("root", "ln")))
        False
        """
        for pattern, node in zip(self.nodes, prefix.nodes, strict=False):
            if pattern == ANY_NODES:
                return True
            if not Path((pattern,)).matches(Path((node,))):
                return False
        return True

    def matches(self, path: Path) -> bool:
        """Tell whether a path is one of the pattern's: ``*`` is one node, ``**`` one or more.

        >>> Path(("root", "**", "t")).matches(Path(("root", "ln", "d1", "t")))
        True
        >>> Path(("root", "*", "t")).matches(Path(("root", "ln", "d1", "t")))
        False
        """
        return self._expression.fullmatch(_BETWEEN.join(path.nodes)) is not None

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(_BETWEEN.join(map(_node_expression, self.nodes)))


def _node_expression(node: str) -> str:
    if node == ANY_NODES:
        return f"[^{_BETWEEN}]+(?:{_BETWEEN}[^{_BETWEEN}]+)*"
    if node == ANY_NODE:
        return f"[^{_BETWEEN}]+"
    if node.startswith("`"):
        return re.escape(node)
    return f"[^{_BETWEEN}]*".join(map(re.escape, node.split(ANY_NODE)))


def node_of(name: str) -> str:
    """Return a quoted name as a node: the back-ticks stay only where it needs them."""
    if _PLAIN.fullmatch(name) and ANY_NODE not in name and not name.isdigit():
        return name
    return quoted(name)


def name_of(node: str) -> str:
    """Return a node without its back-ticks."""
    return node[1:-1].replace("``", "`") if node.startswith("`") else node


@dataclass(frozen=True)
class Series:
    """A time series: where its points lie. ``type`` is IoTDB's; ``table`` names its database's table.

    ``order`` counts the series in the order of their creation; those of mapped databases come behind.
    """

    path: Path
    type: str
    table: str
    column: str
    order: int

    @property
    def device(self) -> str:
        """The device as written in the table."""
        return str(self.path.device)


# --- placeholders of INTO -------------------------------------------------------------------------


def has_placeholder(node: str) -> bool:
    """Tell whether a node of INTO takes something from the source's path."""
    return node == _REST or PLACEHOLDER.search(node) is not None


def filled_device(target: Path, source: Path) -> Path | None:
    """Return the target device for a source device; None where ``${n}`` asks for a node it lacks.

    ``${n}`` is node n of the source, ``::`` all its nodes from that position on.
    """
    nodes: list[str] = []
    for place, node in enumerate(target.nodes):
        if node == _REST:
            nodes += source.nodes[place:]
        else:
            filled = _filled(node, source)
            if filled is None:
                return None
            nodes.append(filled)
    return Path(tuple(nodes)) if nodes else source


def filled_measurement(target: str, source: Path) -> str | None:
    """Return the target measurement for a source series; None where ``${n}`` asks for a node it lacks."""
    return source.measurement if target == _REST else _filled(target, source)


def _filled(node: str, source: Path) -> str | None:
    if any(int(number) >= len(source.nodes) for number in PLACEHOLDER.findall(node)):
        return None
    if not PLACEHOLDER.search(node):
        return node
    return node_of(PLACEHOLDER.sub(lambda found: name_of(source.nodes[int(found[1])]), name_of(node)))
