"""Tells what is wrong with data before anybody trains on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sekai.data.problems import Problems

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sekai.data.reading.options import ReadOptions

__all__ = ["inspect"]


def inspect(source: Any, **options: Unpack[ReadOptions]) -> Problems:
    """Everything that is wrong with a frame, a file or a folder, without an error.

    Args:
        source: what `MarketData.from_frame`, `from_parquet` or `from_csv` would be given.
        **options: as for those. What `policies` deal with is reported as well.
    """
    from sekai.data.reading.read import all_problems

    return all_problems(source, options)
