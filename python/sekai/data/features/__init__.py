"""Point-in-time features of a panel: registry, pipelines, events, streams, look-ahead checks."""
