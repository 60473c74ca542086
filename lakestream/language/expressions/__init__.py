"""Expressions and queries: their trees, what is refused in them, and what they mean in Spark."""
