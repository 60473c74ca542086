"""What becomes of a result: columns, subtables and tags of the output, and which rows it replaces."""
