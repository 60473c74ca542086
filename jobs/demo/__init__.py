"""The demo: a year of New York's flights and weather, fed as it arrived, kept current by streams."""
