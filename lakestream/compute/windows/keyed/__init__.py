"""Queries whose rows fall apart by keys: which, what a change touches, and what is moved by it."""
