"""Folds over pages: read models that can be thrown away and rebuilt. Knows pages and entries, not JetStream."""
