"""A disk that forgets: what events leave for certain, and every state that may be found of the rest.

The rules are those of a file system such as ext4, and a little weaker: what is written to a file lasts once
it is forced; a name lasts once its folder is forced. Until then each file may have its old content, or the
new one, or half of it, and each change of names may have come or not, one independently of the others, but
that of one name the later do not come without the earlier. A rename comes whole or not at all.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import prod
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.faults.power.recording import Event

Tree = dict[str, bytes | None]
"""Files by their paths within the folder, with their content; None for a folder."""

PASSING = ("/claims", "/lock", "/boot-", "/_lakestream/copies")
"""Names of what is for processes, none of which is alive after a power cut, and of what is made anew."""
_AT_MOST = 32
"""States of one moment that are tried as they are; of more, as many as have each pair of choices."""
_TRIES = 12


@dataclass(eq=False)
class Node:
    """A file or a folder: what is in it now, and what lasts. Of a file that was forced at no time nothing."""

    is_folder: bool
    content: bytes = b""
    lasting: bytes = b""
    names: dict[str, Node] = field(default_factory=dict)
    lasting_names: dict[str, Node] = field(default_factory=dict)

    def contents(self) -> list[bytes]:
        """Return what a cut may leave in a file, each once: what lasts, half of the new, all of it."""
        half = len(self.content) // 2
        torn = self.content[:half] + self.lasting[half : len(self.content)]
        return list(dict.fromkeys([self.lasting, torn, self.content]))


@dataclass(frozen=True, eq=False)
class Change:
    """A change of names that comes whole: in which folder which name is what from then on (None: nothing)."""

    names: tuple[tuple[Node, str, Node | None], ...]

    @property
    def keys(self) -> set[tuple[int, str]]:
        """Return what it is about."""
        return {(id(folder), name) for folder, name, _ in self.names}


@dataclass(frozen=True)
class Moment:
    """A state that a cut may leave, and how many things had been told by then."""

    number: int
    tree: Tree
    told: int
    event: int


@dataclass(frozen=True)
class Cuts:
    """How many states cuts may leave, how many differ, and those that differ in what is to last."""

    states: int
    distinct: int
    moments: list[Moment]


class Disk:
    """What events have done to one folder, which was there and empty."""

    def __init__(self, root: str, inode: int) -> None:
        self._root = PurePath(root)
        self._top = Node(is_folder=True)
        self._live: dict[int, Node] = {inode: self._top}
        self._pending: list[Change] = []
        self._unforced: dict[Node, None] = {}
        self.told = 0

    def do(self, event: Event) -> None:
        """Take one event."""
        getattr(self, f"_{event.kind}")(event)

    def states(self, seed: int) -> Iterator[Tree]:
        """Yield what a cut may leave now: all of it where that is little, else so that each pair occurs."""
        changes = self._pending
        torn = {node: found for node in self._unforced if len(found := node.contents()) > 1}
        sizes = [2] * len(changes) + [len(contents) for contents in torn.values()]
        for chosen in _covering(sizes, random.Random(seed)):
            names = [change for change, comes in zip(changes, chosen, strict=False) if comes]
            each = zip(torn.items(), chosen[len(changes) :], strict=True)
            yield self._tree(names, {node: contents[at] for (node, contents), at in each})

    def lasting(self) -> Tree:
        """Return what there is for certain."""
        return self._tree([], {})

    def now(self) -> Tree:
        """Return what is there without a cut."""
        return self._tree(self._pending, {node: node.content for node in self._unforced})

    def _tree(self, changes: Sequence[Change], contents: Mapping[Node, bytes]) -> Tree:
        came = {id(change) for change in changes}
        missing: set[tuple[int, str]] = set()
        names: dict[int, dict[str, Node]] = {}
        for change in self._pending:
            if id(change) not in came or change.keys & missing:
                missing |= change.keys
                continue
            _apply(change, lambda folder: names.setdefault(id(folder), dict(folder.lasting_names)))
        tree: Tree = {}

        def walk(folder: Node, path: str) -> None:
            for name, node in names.get(id(folder), folder.lasting_names).items():
                tree[path + name] = None if node.is_folder else contents.get(node, node.lasting)
                if node.is_folder:
                    walk(node, f"{path}{name}/")

        walk(self._top, "")
        return tree

    # --- events ---

    def _told(self, _event: Event) -> None:
        self.told += 1

    def _create(self, event: Event) -> None:
        folder, name = self._place(event.path)
        if name not in folder.names:
            self._live[event.inode] = Node(is_folder=False)
            self._change((folder, name, self._live[event.inode]))

    def _mkdir(self, event: Event) -> None:
        self._live[event.inode] = Node(is_folder=True)
        self._change((*self._place(event.path), self._live[event.inode]))

    def _link(self, event: Event) -> None:
        folder, name = self._place(event.path)
        self._change((*self._place(event.other), folder.names[name]))

    def _rename(self, event: Event) -> None:
        folder, name = self._place(event.path)
        node = folder.names[name]
        self._change((folder, name, None), (*self._place(event.other), node))

    def _unlink(self, event: Event) -> None:
        self._change((*self._place(event.path), None))

    def _write(self, event: Event) -> None:
        node = self._live[event.inode]
        before = node.content.ljust(event.at, b"\0")
        node.content = before[: event.at] + event.content + before[event.at + len(event.content) :]
        self._unforced[node] = None

    def _truncate(self, event: Event) -> None:
        node = self._live[event.inode]
        node.content = node.content[: event.at].ljust(event.at, b"\0")
        self._unforced[node] = None

    def _force(self, event: Event) -> None:
        node = self._live[event.inode]
        if not node.is_folder:
            node.lasting = node.content
            self._unforced.pop(node, None)
            return
        kept: list[Change] = []
        wanted = {key for change in self._pending if _is_of(change, node) for key in change.keys}
        last = max((at for at, change in enumerate(self._pending) if _is_of(change, node)), default=-1)
        for at, change in enumerate(self._pending):
            if at <= last and change.keys & wanted:
                _apply(change, lambda folder: folder.lasting_names)
            else:
                kept.append(change)
        self._pending = kept

    def _change(self, *names: tuple[Node, str, Node | None]) -> None:
        change = Change(names)
        _apply(change, lambda folder: folder.names)
        self._pending.append(change)

    def _place(self, path: str) -> tuple[Node, str]:
        folder = self._top
        *above, name = PurePath(path).relative_to(self._root).parts
        for part in above:
            folder = folder.names[part]
        return folder, name


def _is_of(change: Change, folder: Node) -> bool:
    return any(one is folder for one, _, _ in change.names)


def _apply(change: Change, names_of: Callable[[Node], dict[str, Node]]) -> None:
    for folder, name, node in change.names:
        if node is None:
            names_of(folder).pop(name, None)
        else:
            names_of(folder)[name] = node


def _covering(sizes: Sequence[int], chance: random.Random) -> Iterator[Sequence[int]]:
    """Yield choices of one of so many each: all where these are few, else so that each pair of two occurs.

    Nothing new and everything new are among them.
    """
    if prod(sizes) <= _AT_MOST:
        yield from product(*map(range, sizes))
        return
    left = {
        (one, a, two, b)
        for one, two in combinations(range(len(sizes)), 2)
        for a, b in product(range(sizes[one]), range(sizes[two]))
    }
    for row in ([0] * len(sizes), [size - 1 for size in sizes]):
        left -= _pairs(row)
        yield row
    while left:
        one, a, two, b = min(left)
        tries = []
        for _ in range(_TRIES):
            row = [chance.randrange(size) for size in sizes]
            row[one], row[two] = a, b
            tries.append(row)
        best = max(tries, key=lambda row: len(_pairs(row) & left))
        left -= _pairs(best)
        yield best


def _pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    numbered = list(enumerate(row))
    return {(one, a, two, b) for (one, a), (two, b) in combinations(numbered, 2)}


def cuts(events: Sequence[Event], root: str, inode: int, seed: int = 0) -> Cuts:
    """Return the states that a cut may leave, each once, with the most that had been told by then.

    Of those that are equal but for what running processes note of themselves, it is one by chance.
    """
    disk, chance = Disk(root, inode), random.Random(seed)
    found: dict[int, Moment] = {}
    equal = Counter[int]()
    distinct = set[int]()
    states = 0
    for number, event in enumerate(events):
        disk.do(event)
        for tree in disk.states(number):
            states += 1
            whole, key = hash(frozenset(tree.items())), _lasting_key(tree)
            if whole not in distinct:
                distinct.add(whole)
                equal[key] += 1
                if not chance.randrange(equal[key]):
                    found[key] = Moment(states, tree, disk.told, number)
            found[key] = replace(found[key], told=disk.told, event=number)
    return Cuts(states, len(distinct), list(found.values()))


def _lasting_key(tree: Tree) -> int:
    return hash(frozenset(one for one in tree.items() if not any(part in one[0] for part in PASSING)))
