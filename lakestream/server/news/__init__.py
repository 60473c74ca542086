"""What the daemon tells unasked: live messages, and what it has counted."""
