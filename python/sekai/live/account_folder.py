"""Account folder: the lock of an account, and state that outlives its sessions."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from sekai.core.base import Closeable
from sekai.error import BusyError, StateError
from sekai.storage.files import atomic_write
from sekai.storage.lock import FileLock
from sekai.storage.strict_json import parse_json

__all__ = ["AccountFolder", "AccountState", "account_path"]

FORMAT = 1
"""Format number of the state file."""

KEPT_SESSIONS = 1_000
"""Number of sessions whose id namespace is remembered."""

_MINUTE = 60_000_000_000


class _Clock(Protocol):
    """Clocks of a machine, see `sekai.live.clock`."""

    def wall_ns(self) -> int: ...

    def boot_ns(self) -> int: ...

    def boot_id(self) -> str: ...


@dataclass(slots=True)
class AccountState:
    """State of an account that outlives its sessions."""

    references: dict[str, Any] = field(default_factory=dict)
    """State of `EquityReferences`; empty before the first session has rows."""

    order_ages: list[int] = field(default_factory=list)
    """Ages of recent orders in nanoseconds when the state was saved."""

    boot_id: str = ""
    boot_ns: int = 0
    wall_ns: int = 0
    """Clocks when the state was saved."""

    sessions: dict[str, str] = field(default_factory=dict)
    """Namespace of order ids by session folder, the oldest first."""

    session_count: int = 0
    """Number of sessions that the account ever had."""

    nonce: str = ""
    """Part of every namespace, so that a lost state file repeats none."""


class AccountFolder(Closeable):
    """Folder of an account, which one session holds at a time.

    Loss limits, the order rate and order ids belong to the account: a session in a fresh folder
    goes on with the day, the peak and the rate of the one before, and repeats no order id.

    Args:
        path: the folder, see `account_path`; created with access for its owner alone.
        session: folder of the session that holds it.

    Raises:
        BusyError: another session holds the account.
        StateError: the state file is damaged, or of another format.
    """

    def __init__(self, path: str | os.PathLike[str], session: str | os.PathLike[str]) -> None:
        self.path, self._session = Path(path), str(Path(session).absolute())
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self._parts = contextlib.ExitStack()
        try:
            self._parts.enter_context(FileLock(self.path / "lock", "locked"))
        except BusyError as error:
            raise BusyError(self._busy()) from error
        try:
            self.state = self._read()
            self._write("holder.json", {"pid": os.getpid(), "session": self._session})
        except BaseException:
            self._parts.close()
            raise

    def namespace(self, *, is_new: bool, named: bool = True) -> str:
        """Prefix of the order ids of the session, which no other session of the account has.

        Args:
            is_new: True if the session begins: a folder that was removed and created again is
                another session. False continues the namespace that the folder has.
            named: False for an account without an id, which has no other sessions.
        """
        state = self.state
        if not is_new and self._session in state.sessions:
            return state.sessions[self._session]
        if named and not state.nonce:
            state.nonce = secrets.token_hex(2)
        state.session_count += 1
        name = f"{Path(self._session).name}.{state.nonce}{state.session_count}"
        state.sessions.pop(self._session, None)
        state.sessions[self._session] = name
        while len(state.sessions) > KEPT_SESSIONS:
            del state.sessions[next(iter(state.sessions))]
        self._save(fsync=True)
        return name

    def save(
        self,
        references: Mapping[str, Any],
        order_times: Sequence[int],
        clock: _Clock,
        *,
        fsync: bool = True,
    ) -> None:
        """Replace the state file.

        Args:
            references: state of `EquityReferences`.
            order_times: `RiskGate.order_times`, by `clock.boot_ns`.
            clock: clocks of this machine.
            fsync: wait until it is on disk.
        """
        state, now = self.state, clock.boot_ns()
        state.references = dict(references)
        state.order_ages = [max(0, now - time) for time in order_times]
        state.boot_id, state.boot_ns, state.wall_ns = clock.boot_id(), now, clock.wall_ns()
        self._save(fsync=fsync)

    def order_times(self, clock: _Clock) -> list[int]:
        """Times of the orders within the last minute, by `clock.boot_ns`.

        Orders of another boot are aged by the wall clock. If that went back, the time since the
        state was saved is unknown and counts as none, so that they stay in the rate.
        """
        state, now = self.state, clock.boot_ns()
        if state.boot_id and state.boot_id == clock.boot_id():
            elapsed = now - state.boot_ns
        else:
            elapsed = clock.wall_ns() - state.wall_ns
        ages = sorted((age + max(0, elapsed) for age in state.order_ages), reverse=True)
        return [now - age for age in ages if age < _MINUTE]

    def close(self) -> None:
        """Release the account. Closing twice is no error."""
        self._parts.close()

    def _save(self, *, fsync: bool) -> None:
        state = self.state
        values = {name: getattr(state, name) for name in AccountState.__slots__}
        self._write("account.json", {"format": FORMAT, **values}, fsync=fsync)

    def _write(self, name: str, values: Mapping[str, Any], *, fsync: bool = True) -> None:
        file = self.path / name
        content = json.dumps(values, allow_nan=False).encode("ascii")
        # The folder has no access for others, so that the draft has none either.
        atomic_write(file, content, fsync=fsync)
        file.chmod(0o600)

    def _read(self) -> AccountState:
        file = self.path / "account.json"
        try:
            values = parse_json(file.read_text(encoding="ascii"))
        except FileNotFoundError:
            return AccountState()
        except (ValueError, OSError) as error:
            raise StateError(f"{self._damaged(file)}: {error}") from error
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise StateError(f"{self._damaged(file)}: expected format {FORMAT}")
        try:
            return _checked(AccountState(**values))
        except TypeError as error:
            raise StateError(f"{self._damaged(file)}: {error}") from error

    def _damaged(self, file: Path) -> str:
        return (
            f"state of the account cannot be read from {file}; check its losses and orders at the "
            f"broker, then move the file away to begin anew"
        )

    def _busy(self) -> str:
        try:
            holder = parse_json((self.path / "holder.json").read_text(encoding="ascii"))
            who = f"process {int(holder['pid'])} with the session {str(holder['session'])!r}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return (
            f"the account in {str(self.path)!r} is held by {who}; expected one session per "
            f"account: stop that one first"
        )


def account_path(
    account_id: str | None,
    session: str | os.PathLike[str],
    accounts: str | os.PathLike[str] | None = None,
) -> Path:
    """Folder of an account.

    Args:
        account_id: `Broker.account_id`. None if the account belongs to the session folder.
        session: session folder.
        accounts: folder of all accounts; `~/.sekai/accounts` if not given.
    """
    if account_id is None:
        return Path(session) / "account"
    if not account_id:
        raise ValueError("account_id must be text or None, got ''")
    # Ids may differ in letters that file names cannot have, or in their case alone.
    digest = blake2b(account_id.encode(errors="surrogatepass"), digest_size=6).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9_]+", "_", account_id)[:40].strip("_")
    root = Path.home() / ".sekai" / "accounts" if accounts is None else Path(accounts)
    return root / f"{readable or 'account'}-{digest}"


def _checked(state: AccountState) -> AccountState:
    """Return a state whose fields have their types; else raise `TypeError`."""
    kinds: dict[str, type] = {"references": dict, "order_ages": list, "sessions": dict}
    kinds |= dict.fromkeys(("boot_ns", "wall_ns", "session_count"), int)
    kinds |= dict.fromkeys(("boot_id", "nonce"), str)
    for name, kind in kinds.items():
        if not isinstance(getattr(state, name), kind):
            raise TypeError(f"{name} must be {kind.__name__}, got {getattr(state, name)!r}")
    if not all(isinstance(age, int) for age in state.order_ages):
        raise TypeError(f"order_ages must be whole numbers, got {state.order_ages!r}")
    return state
