"""Multi-agent training: joint environments, policy groups and joint replay."""
