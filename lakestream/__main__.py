"""``python -m lakestream``: the command line."""

from lakestream.cli import main

if __name__ == "__main__":
    main()
