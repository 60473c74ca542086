"""What people would use instead, each written as its users would write it, a module each."""
