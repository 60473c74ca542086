"""Commands over a lake as a whole, and over what it stands on."""
