"""Power cuts: what a process did to a folder is recorded, and each state that a cut may leave is tried."""
