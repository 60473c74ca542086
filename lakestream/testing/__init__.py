"""Tests of streams: cases in YAML, run in lakes of their own, and what pytest needs for them."""
