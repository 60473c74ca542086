"""Nexmark's auctions: persons, their auctions and bids, and the queries over them that windows answer."""
