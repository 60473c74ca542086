"""The command line: one module per group of commands.

Modules import click at the top and everything heavier inside functions, so that ``--help`` and
``status`` answer at once. Results go to stdout, talk (prompts, progress, errors) to stderr.
"""

from lakestream.cli.app import cli, main

__all__ = ["cli", "main"]
