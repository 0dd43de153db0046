"""Data files: one JSON codec with a closed list of types, and the kinds that it knows by name."""
