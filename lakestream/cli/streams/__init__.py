"""Commands over streams and their ticks."""
