"""The Spark session: its jars, its start, and what only Spark can do to a table."""
