"""Words of statements, and what all dialects take them for."""
