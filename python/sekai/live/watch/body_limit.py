"""Bodies of requests that are no longer than a few words."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

__all__ = ["MOST_BYTES", "limited"]

MOST_BYTES = 4096


def limited(receive: Receive) -> Receive:
    """The same, which refuses a body as soon as it is too long, whatever its length was said to be.

    Raises:
        HTTPException: 413, to whoever reads on.
    """
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise HTTPException(413, f"at most {MOST_BYTES} bytes were wanted")
        return message

    return receiving
