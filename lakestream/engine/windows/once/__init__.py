"""Windows that fire once, over the rows that were admitted: late ones are left out, or correct them."""
