"""Single-asset order execution: simulators, interpreters, rewards and baselines."""
