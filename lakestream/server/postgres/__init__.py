"""PostgreSQL's protocol: clients that know it read a lake's tables, and run its statements."""
