"""The engine: ticks, their plans, recovery and the run loop."""
