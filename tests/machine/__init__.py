"""A whole lake under random statements, changes, upkeep, kills and restarts, held to plain Python."""
