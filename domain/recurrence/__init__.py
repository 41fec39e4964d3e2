"""Recurrences: when a schedule is due, in a zone, under declared rules."""
