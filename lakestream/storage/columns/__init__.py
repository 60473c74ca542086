"""Types of columns, and times that are kept as other ones."""
