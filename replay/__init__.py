"""Reads the log again: explains, verifies, exports. Causes no effect."""
