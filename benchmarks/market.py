"""Benchmark of the market against its peers: order book, trading, market making, execution.

CPU time, and wall time with several threads; medians of interleaved repeats.
"""

from __future__ import annotations

import argparse

from execution import execution, schedule, single_order
from market_making import making, optimum, single
from order_book import book
from trading import growth, trading

SECTIONS = {
    "book": book,
    "trading": trading,
    "growth": growth,
    "making": making,
    "single": single,
    "optimum": optimum,
    "execution": execution,
    "order": single_order,
    "schedule": schedule,
}


def main() -> None:
    """Run the named sections, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=7, help="repeats of each measurement")
    arguments = parser.parse_args()
    for name in arguments.names:
        SECTIONS[name](arguments.rounds)


if __name__ == "__main__":
    main()
