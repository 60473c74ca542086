"""The HTTP API, who may ask it, and the page."""
