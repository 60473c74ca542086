"""``lakestream sql``, and the shell."""
