"""Spark's SQL over few rows, answered in this process by DuckDB, where it answers exactly as Spark does."""
