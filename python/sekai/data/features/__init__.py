"""What is computed from a panel, point in time: features by name, pipelines, events, streams."""
