"""The pure core: keys, instants, recurrence, entries, books and decisions.

Nothing in here performs I/O, reads a clock, draws a random number or awaits. Time and identity
come in as arguments, decisions go out as entries.
"""
