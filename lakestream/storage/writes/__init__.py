"""Commits: what users write, what streams write, and upkeep."""
