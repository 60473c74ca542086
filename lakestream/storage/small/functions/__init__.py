"""What queries call of Python: hashes, JSON and zones as Spark has them."""
