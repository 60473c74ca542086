"""One tick: its stages, run, with what it tells of and the windows that fail in it."""
