"""What a tick reads, and the two ways its bytes move."""
