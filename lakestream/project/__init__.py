"""A project: files that define the tables and streams of a lake, and what is done so that the lake is so."""
