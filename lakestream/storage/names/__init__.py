"""Databases, tables, subtables and the tree: what names stand for."""
