"""Distributed training with Ray: remote rollouts, and many training runs at once."""
