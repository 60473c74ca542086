"""Streams side by side: what a round leaves to turns, and who takes them."""
