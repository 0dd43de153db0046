"""Simulator, interpreters and reward composed into an environment."""
