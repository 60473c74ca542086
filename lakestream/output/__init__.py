"""Outputs: result rows become the rows of a Delta table."""
