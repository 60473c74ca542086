"""What all dialects take words, functions and clauses for."""
