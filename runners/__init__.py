"""Processes and adapters: the only place with effects."""
