"""TDengine's statements, clause by clause; a draft of a stream that other dialects fill too."""
