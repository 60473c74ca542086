"""Windows of a grid of time: tumbling, sliding, and those of a sliding trigger's instants."""
