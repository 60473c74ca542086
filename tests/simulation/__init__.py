"""Leases, the outbox's dispatcher and the rounds of a watch: their own code over simulated time and storage.

Nothing runs but this thread: what would wait lets simulated time pass, and every choice comes of a seed.
"""
