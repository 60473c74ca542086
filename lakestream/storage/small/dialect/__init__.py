"""Spark's SQL in DuckDB's words."""
