"""The tasks that come with sekai, one a file."""
