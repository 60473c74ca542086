"""Rows of a table, as they are at a version and as they changed."""
