"""How a session ends: what is held is sold, and what stands is taken back."""

from __future__ import annotations

from logging import ERROR

from sekai.live.events import BarEvent
from sekai.live.feed import Feed
from sekai.live.session import Session
from sekai.live.session_log import SessionLog

__all__ = ["sell_everything", "take_back"]


async def sell_everything(session: Session, feed: Feed, rows: int) -> None:
    """Close all positions, in so many more rows of the feed at most."""
    session.is_flattening = True
    session.account = await session.desk.account()
    if session.is_flat():
        return
    await session.flatten(session.episode.row)
    for _ in range(rows):
        try:
            event = await feed.__anext__()
        except StopAsyncIteration:
            break
        if isinstance(event, BarEvent):
            await session.take_row(event)
        if session.is_flat():
            return
    session.monitor.alert("not everything could be sold before the session ended")


async def take_back(session: Session, log: SessionLog) -> None:
    """Leave nothing standing at a broker, if it can be reached, in a session that failed."""
    for order in session.desk.keeper.open_orders():
        await _try_to_cancel(order.id, session, log)


async def _try_to_cancel(order_id: str, session: Session, log: SessionLog) -> None:
    try:
        await session.desk.broker.cancel(order_id)
    except Exception as error:
        # Why the session failed is what has to be raised, and not what failed after it.
        log.event("not_cancelled", ERROR, id=order_id, error=error)
        session.monitor.alert(f"{order_id} may still stand at the broker: {error}")
