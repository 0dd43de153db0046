"""Vector envs that stop when their seeds are used up."""
