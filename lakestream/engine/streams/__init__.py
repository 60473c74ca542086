"""A stream, compiled: its SQL, its output table, and how rows get into that."""
