"""What reads one asset."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

__all__ = ["Encoder"]


class Encoder(nn.Module, ABC):
    """Turns an asset's window and what the account holds of it into `width` numbers.

    It is made with the rows of a window, the features of a row, the numbers of the account for
    each asset and the settings. Assets know nothing of each other here.
    """

    width: int

    @abstractmethod
    def forward(self, windows: Tensor, own: Tensor) -> Tensor:
        """Read every asset.

        Args:
            windows: batch by slots by times by channels.
            own: what the account has of each: batch by slots by numbers.

        Returns:
            Batch by slots by width.
        """
