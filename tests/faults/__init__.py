"""Faults on purpose: crashes at every point of a tick, kills at any time, broken sources and outputs."""
