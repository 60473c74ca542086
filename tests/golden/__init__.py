"""The golden log: what a test sends to Spark and commits to Delta, so that two versions can be compared."""
