"""Storage: atomic files, locks, the JSON codec of data files, event files, optional imports."""
