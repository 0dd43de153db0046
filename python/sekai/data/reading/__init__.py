"""From a user's files and frames to a sound panel."""
