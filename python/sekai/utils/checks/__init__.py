"""The single checks that `check_env` is made of, one concept a file."""
