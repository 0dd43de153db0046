"""Deterministic simulation of a session, its venue, feed and clock on virtual time."""
