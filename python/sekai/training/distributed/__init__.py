"""Training past one machine: envs that act in workers of a Ray cluster, many trainings at once."""
