"""Types of what a query is made of, from those of its columns: what Spark refuses, or gives another type."""
