"""TDengine's functions and clauses of a query, written in Spark SQL."""
