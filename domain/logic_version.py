"""The numbered versions of the decision logic. Every version stays here for ever; pages say which they used."""

CURRENT_LOGIC_VERSION = 1
"""1: missed-fire policies, lanes, overlap, ceilings, retries, held fires, pauses, edits, backfills, fires by hand.

Nothing has been released yet: until then its meaning may change, and the histories are recorded anew.
"""

KNOWN_LOGIC_VERSIONS = frozenset({1})
"""Versions this release can replay."""
