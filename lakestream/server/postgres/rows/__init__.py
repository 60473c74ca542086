"""Rows on their way to a client: kept until it takes them, and written as PostgreSQL has them."""
