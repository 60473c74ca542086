"""Where things lie in a lake, and who may write there."""
