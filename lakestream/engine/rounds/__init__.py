"""Rounds of ticks over all streams of a lake, recovery, retries, and who is told."""
