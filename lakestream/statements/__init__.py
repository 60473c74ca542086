"""What statements do on a lake, beside the ticks: tables, queries, VERIFY, EXPLAIN, maintenance."""
