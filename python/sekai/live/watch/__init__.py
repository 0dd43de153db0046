"""Monitoring of sessions and training runs: web page, event stream and Prometheus metrics."""

from sekai.live.watch.sources import MonitorSource, SessionSource

__all__ = ["MonitorSource", "SessionSource"]
