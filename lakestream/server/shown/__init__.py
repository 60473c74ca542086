"""The lake as the daemon shows it, as documents."""
