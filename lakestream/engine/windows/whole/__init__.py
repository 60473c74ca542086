"""A single window over all there is."""
