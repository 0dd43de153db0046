"""Device of networks by name."""

from __future__ import annotations

import torch

__all__ = ["resolve_device"]

DEVICES = "'cpu', 'cuda', 'cuda:N', 'mps' or 'auto'"


def resolve_device(device: str | torch.device) -> torch.device:
    """Device of the networks by name; "auto" is the first of cuda, mps and cpu that is available.

    Raises:
        ValueError: the device is unknown, or not available here.
    """
    has_mps = torch.backends.mps.is_available()
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"unknown device {device!r}; expected {DEVICES}") from error
    if resolved == torch.device("cpu"):
        # Looking for GPUs loads their driver.
        return resolved
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(has_mps)}
    if resolved.type not in counts:
        raise ValueError(f"unsupported device {device!r}; expected {DEVICES}")
    count = counts[resolved.type]
    if (resolved.index or 0) >= count:
        available = [name for name, number in counts.items() if number]
        raise ValueError(
            f"device {str(device)!r} is not available; torch reports {count} of its type, use "
            f"{' or '.join(map(repr, available))}, or 'auto'"
        )
    return resolved
