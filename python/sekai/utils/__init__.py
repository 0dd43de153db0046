"""Tools for those who write environments: `check_env` and `check_causal`."""
