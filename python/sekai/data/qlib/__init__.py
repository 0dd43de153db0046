"""Qlib provider directories, read and written without Qlib."""

from sekai.data.qlib.intraday import QlibIntraday
from sekai.data.qlib.panel import QlibOptions
from sekai.data.qlib.provider import QlibProvider
from sekai.data.qlib.writing import write_qlib

__all__ = ["QlibIntraday", "QlibOptions", "QlibProvider", "write_qlib"]
