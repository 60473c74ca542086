"""Compare two golden logs: ``python -m tests.golden OLD NEW``. Status 1 where they differ."""

from __future__ import annotations

import sys
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import click


@click.command(help=__doc__)
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("new", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--lines", default=20, show_default=True, help="lines of each difference that are shown")
@click.option("--width", default=200, show_default=True, help="characters of each line that are shown")
def main(old: Path, new: Path, lines: int, width: int) -> None:
    names = {path.name for folder in (old, new) for path in folder.glob("*.log")}
    differing = 0
    for name in sorted(names):
        texts = [_lines(folder / name) for folder in (old, new)]
        if texts[0] == texts[1]:
            continue
        differing += 1
        click.echo(f"== {name}")
        difference = unified_diff(texts[0], texts[1], "old", "new", n=1, lineterm="")
        for line in islice(difference, lines):
            click.echo(line[:width])
    click.echo(f"{len(names)} tests, {differing} differ")
    sys.exit(bool(differing))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else ["(not recorded)"]


if __name__ == "__main__":
    main()
