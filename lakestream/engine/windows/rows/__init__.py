"""Row windows: sessions, states, events and counts, which are cut by the rows themselves."""
