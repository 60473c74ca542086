"""What the daemon's process has: the lake as its owner, workers with Spark, Spark Connect."""
