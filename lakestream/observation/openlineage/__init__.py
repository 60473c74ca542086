"""OpenLineage: a receiver hears of every tick, which tables it read and wrote, and of which columns."""
