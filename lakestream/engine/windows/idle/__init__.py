"""Groups that fall idle, and are heard of again."""
