"""Paper trading: a simulated broker on live data, with fault injection."""

from sekai.live.paper.account import PaperAccount
from sekai.live.paper.broker import PaperBroker
from sekai.live.paper.faults import PaperFaults

__all__ = ["PaperAccount", "PaperBroker", "PaperFaults"]
