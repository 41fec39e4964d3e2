"""The numbered versions of the decision logic. Every version stays here for ever; pages say which they used."""

CURRENT_LOGIC_VERSION = 1
"""1: on-time fires, horizon, the three missed-fire policies, overlap, outcome window, exact pauses and edits."""

KNOWN_LOGIC_VERSIONS = frozenset({1})
"""Versions this release can replay."""
