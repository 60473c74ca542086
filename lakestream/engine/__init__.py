"""Ticks: what to read, what fires, what it computes, what is written, and going on after a crash."""
