"""Provider directories of Qlib: read and written without Qlib."""

from sekai.data.qlib.intraday import QlibIntraday
from sekai.data.qlib.provider import QlibProvider

__all__ = ["QlibIntraday", "QlibProvider"]
