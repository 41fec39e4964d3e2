"""The scheduler: decides what is due in the books it owns, and commits the decisions."""
