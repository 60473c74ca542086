"""Commands over a project: the folder of files that define a lake's tables and streams."""
