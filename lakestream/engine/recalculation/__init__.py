"""Windows of a range of event time computed again, and streams put at their source as it is."""
