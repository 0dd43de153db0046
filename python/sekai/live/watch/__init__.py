"""A page, a stream and numbers for those who watch what runs, and who may look."""

from sekai.live.watch.session_source import SessionSource
from sekai.live.watch.source import Source

__all__ = ["SessionSource", "Source"]
