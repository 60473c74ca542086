"""A statement's words, and the small steps that every statement's reader is made of."""
