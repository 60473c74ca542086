"""Notebooks: ``%load_ext lakestream`` gives cells of statements, with progress, tables and charts."""
