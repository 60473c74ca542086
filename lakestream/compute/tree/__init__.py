"""Queries over the tree of time series, as Spark SQL (IoTDB)."""
