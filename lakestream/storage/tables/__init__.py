"""Delta tables: their log, their files, and kept handles on them."""
