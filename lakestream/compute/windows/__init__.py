"""The calculation of a stream over all windows of a tick."""
