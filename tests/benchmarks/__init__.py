"""Benchmarks: `make bench` runs them side by side and writes `build/bench.json`."""
