"""What a stream's next tick takes, whether it can go on, and what the clock makes due."""
