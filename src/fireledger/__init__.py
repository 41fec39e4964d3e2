"""Fireledger: a scheduled-trigger service whose product is a committed decision per instant."""

__version__ = "0.1.0"
