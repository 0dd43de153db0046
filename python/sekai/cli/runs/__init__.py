"""Runs: a folder for each training, with all that became of it."""
