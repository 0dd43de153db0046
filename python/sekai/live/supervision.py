"""Supervision of a session: account lock, state, status file and watchdog.

It needs no env, feed or policy, and importing it imports none: a process that starts it first obeys
the kill switch while it still imports and builds the rest, however long that takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from sekai.error import BusyError, JournalError
from sekai.live.account_folder import AccountFolder, account_path
from sekai.live.broker import Broker
from sekai.live.config import LiveConfig, SessionFolder
from sekai.live.kill_switch import KillSwitch
from sekai.live.runtime import Runtime, call_in_loop
from sekai.live.state_machine import SessionStateMachine
from sekai.live.status import SessionStatus, StatusWriter
from sekai.live.watchdog import SessionLink, Watchdog
from sekai.storage.files import private_folder

__all__ = ["Supervision", "hold_account"]


class Supervision:
    """Watchdog of a session, with all that it needs.

    `LiveRunner` creates one. A process that must obey the kill switch at once starts its own before
    it imports and builds the rest, and passes it to the runner, which closes it::

        from sekai.live.supervision import Supervision

        supervision = Supervision(broker, "session", config)
        supervision.start()
        ...
        LiveRunner(policy, env, feed, broker, "session", config, supervision=supervision)

    Args:
        broker: broker of the session; only its control connection is used here.
        folder: session folder; created if missing.
        config: settings of the session.
        runtime: clock and threads; those of this machine if not given.
    """

    def __init__(
        self,
        broker: Broker,
        folder: Path | str,
        config: LiveConfig | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        self.broker = broker
        # The session is named after the folder, and `.` has no name.
        self.folder = SessionFolder(Path(os.path.abspath(folder)))
        self.config = LiveConfig() if config is None else config
        self.runtime = runtime or Runtime()
        self.switch = KillSwitch(self.folder.kill)
        self.state = SessionStateMachine()
        self.link = SessionLink()
        self._parts = contextlib.ExitStack()
        self._watchdog: Watchdog | None = None
        self._join: Callable[[], Awaitable[None]] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.folder.path.name}: {self.state.state}>"

    @property
    def is_started(self) -> bool:
        """True once the watchdog runs, also after it was closed."""
        return self._watchdog is not None

    def require_same(self, other: Supervision) -> Supervision:
        """Return this supervision if another one is of the same session.

        Raises:
            ValueError: broker, folder or config differ.
        """
        for name in ("broker", "folder", "config"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"supervision is of another {name}; expected {getattr(other, name)!r}, got "
                    f"{getattr(self, name)!r}; create it with those of the runner"
                )
        return self

    def start(self) -> None:
        """Hold the account, and start the watchdog.

        Raises:
            JournalError: another session has the account or the folder.
            RuntimeError: it was started before.
        """
        if self.is_started:
            raise RuntimeError("a supervision starts once; create another")
        private_folder(self.folder.path)
        try:
            self.account = self._parts.enter_context(
                hold_account(self.broker, self.folder, self.config)
            )
            self.writer: StatusWriter = self._parts.enter_context(
                self.runtime.status_writer(self.folder.status)
            )
            self._watchdog = Watchdog(
                self.folder,
                self.switch,
                self.broker.control(),
                self.config,
                self.link,
                self.state,
                self.runtime.clock,
                self.writer.offer,
            )
        except BaseException:
            self._parts.close()
            raise
        # Until the session has a status of its own.
        self.link.status = SessionStatus(session=self.folder.path.name, state="starting")
        self._watchdog.look()
        self._join = self.runtime.start_watchdog(self._watchdog.run)

    def attach(self, loop: asyncio.AbstractEventLoop) -> asyncio.Event:
        """Provide the watchdog with the session's connection, in its event loop.

        Returns:
            Event that is set when the watchdog has acted.
        """
        acted = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):
                # The loop may have been closed meanwhile.
                loop.call_soon_threadsafe(acted.set)

        self.link.changed = wake
        self.link.call_session = lambda request: call_in_loop(loop, lambda: request(self.broker))
        return acted

    async def stop(self) -> None:
        """End the watchdog; the account is held until `close`."""
        if self._watchdog is not None:
            self._watchdog.close()
        join, self._join = self._join, None
        if join is not None:
            await join()

    def close(self) -> None:
        """Release the account, and write the last status. Closing twice is no error."""
        if self._watchdog is not None:
            self._watchdog.close()
        self._parts.close()


def hold_account(broker: Broker, folder: SessionFolder, config: LiveConfig) -> AccountFolder:
    """Hold the account of a broker, which one session has at a time.

    Raises:
        JournalError: another session has it.
    """
    path = account_path(broker.account_id, folder.path, config.accounts)
    try:
        return AccountFolder(path, folder.path)
    except BusyError as error:
        raise JournalError(f"a session runs once: {error}") from error
