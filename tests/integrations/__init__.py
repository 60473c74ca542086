"""What other schedulers do with a lake, by themselves."""
