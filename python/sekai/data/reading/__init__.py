"""Readers: from files and frames to a validated panel."""
