"""Several agents that learn in one world."""
