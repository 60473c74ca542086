"""Looking at a lake without changing it: status, history, EXPLAIN, VERIFY, information_schema."""
