"""Orders of one asset, worked over a day: simulators, interpreters, rewards and baselines."""
