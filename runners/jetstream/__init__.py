"""The broker, and the only package that imports its client."""
