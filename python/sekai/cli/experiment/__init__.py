"""Experiment files: what is to be trained on what, and how it is judged."""
