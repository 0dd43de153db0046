"""Monitor sources: the interface, and live sessions read from the files of their folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from sekai.live.config import SessionFolder
from sekai.live.kill_switch import kill_reason, write_kill_file
from sekai.live.status import SessionState, SessionStatus

__all__ = [
    "RUNNING_STATES",
    "SILENT_SECONDS",
    "Kind",
    "MonitorSource",
    "SessionSource",
    "checked_status",
    "file_stamp",
    "plain_status",
]

Kind = Literal["session", "training"]

SILENT_SECONDS = 5.0
"""A running process replaces its status about once a second."""

MAX_STATUS_BYTES = 8 * 2**20
REASON_LENGTH = 200
NO_STATUS = "no status yet"

RUNNING_STATES = ("starting", "trading", "reducing", "halted", "killed")
"""States of a session with a running process."""

FileStamp = tuple[int, int, int] | None
"""Inode, modification time and size; None without a file."""

TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
}
"""Allowed types by annotation of a field."""

MAX_NUMBER = 1e300


@runtime_checkable
class MonitorSource(Protocol):
    """Interface of a monitored session or training run; polled several times a second."""

    @property
    def kind(self) -> Kind:
        """`session` or `training`."""

    @property
    def title(self) -> str:
        """Name of the source."""

    def version(self) -> Hashable:
        """Value that changes when the result of `read` changes."""

    def read(self) -> dict[str, Any]:
        """Current state, ready for JSON.

        Does not raise for a file that is missing, incomplete or malformed: it returns the last
        valid one, with a remark under "note".
        """


class SessionSource:
    """Source of a live session: reads its status, and can set and release its kill switch.

    Args:
        folder: folder of the session; it may be empty.
        clock: seconds since 1970.
    """

    kind: Kind = "session"

    def __init__(self, folder: SessionFolder, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._stamp: FileStamp = None
        self._status: SessionStatus | None = None
        self._note = NO_STATUS

    @property
    def title(self) -> str:
        """Name of the session."""
        return self.folder.path.name

    @property
    def status(self) -> SessionStatus | None:
        """Last valid status that `read` found."""
        return self._status

    def version(self) -> Hashable:
        """Stamps of the status and kill files, and whether the process is silent."""
        stamps = file_stamp(self.folder.status), file_stamp(self.folder.kill)
        return *stamps, self._silent_since() is not None

    def read(self) -> dict[str, Any]:
        """Last valid status, remarks on it, and the reason of the kill switch."""
        self._update()
        return {
            "kind": self.kind,
            "title": self.title,
            "status": None if self._status is None else plain_status(self._status),
            "note": self._note,
            "silent_since": self._silent_since(),
            "kill": _kill_reason(self.folder.kill),
        }

    def kill(self, reason: str) -> None:
        """Stop all trading of the session; an existing kill file keeps its reason."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        write_kill_file(self.folder.kill, f"{_one_line(reason)} ({now})\n")

    def release(self, name: str) -> None:
        """Release the kill switch.

        Args:
            name: name of the session, typed by the user as a confirmation.
        """
        if name != self.title:
            raise ValueError(f"confirmation {name!r} is not the session name {self.title!r}")
        self.folder.kill.unlink(missing_ok=True)

    def _update(self) -> None:
        stamp = file_stamp(self.folder.status)
        if stamp is None:
            is_known = self._status is not None
            self._note = (
                "status.json is missing; showing the last status" if is_known else NO_STATUS
            )
        elif stamp != self._stamp:
            try:
                self._status, self._note = self._load(stamp), ""
            except (OSError, ValueError, RecursionError, OverflowError) as error:
                self._note = f"cannot read status.json, showing the last valid one: {error}"
        self._stamp = stamp

    def _load(self, stamp: tuple[int, int, int]) -> SessionStatus:
        if stamp[2] > MAX_STATUS_BYTES:
            raise ValueError(f"it has {stamp[2]:,} bytes, more than {MAX_STATUS_BYTES:,}")
        return checked_status(self.folder.status.read_text(encoding="utf-8"))

    def _silent_since(self) -> str | None:
        """Time of the last status of a running process if it is overdue, else None."""
        status, stamp = self._status, self._stamp
        if status is None or status.state not in RUNNING_STATES or stamp is None:
            return None
        now = self._clock()
        last = _seconds(status.updated)
        # With a clock in the future or before 1970 the modification time counts.
        if last is None or not 0 < last <= now:
            last = stamp[1] / 1e9
        if now - last <= SILENT_SECONDS:
            return None
        return datetime.fromtimestamp(last, timezone.utc).isoformat(timespec="seconds")


def file_stamp(file: Path) -> FileStamp:
    """Stamp of a file, which changes if it is written or replaced."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def checked_status(text: str) -> SessionStatus:
    """Parse and validate a status: the file may be written by any process.

    Raises:
        ValueError: not a status, or a field has another type or a number that is not finite.
    """
    status = SessionStatus.from_json(text)
    if status.state not in (*get_args(SessionState), *RUNNING_STATES):
        raise _invalid("state", status.state)
    for part in (status, status.feed, *status.orders, *status.latency.values()):
        _check_fields(part)
    _check_numbers("costs", status.costs)
    if not isinstance(status.positions, Mapping):
        raise _invalid("positions", status.positions)
    for asset, numbers in status.positions.items():
        _check_numbers(f"positions of {asset}", numbers)
    _check_values("equity_values", status.equity_values, (int, float))
    _check_values("equity_times", status.equity_times, (str,))
    _check_values("alerts", status.alerts, (str,))
    for summary in status.latency.values():
        edges = [number for bucket in summary.buckets for number in bucket]
        _check_values("buckets", edges, (int, float))
    return status


def plain_status(status: SessionStatus) -> dict[str, Any]:
    """Convert a status for JSON, without copying its long lists."""
    return {
        **{field.name: getattr(status, field.name) for field in fields(status)},
        "orders": [asdict(order) for order in status.orders],
        "latency": {name: asdict(summary) for name, summary in status.latency.items()},
        "feed": status.feed.to_dict(),
    }


def _kill_reason(file: Path) -> str | None:
    """Reason of the kill switch; None if it is off. An unreadable file stops trading too."""
    reason = kill_reason(file)
    return None if reason is None else _one_line(reason)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:REASON_LENGTH]


def _check_fields(part: Any) -> None:
    for field in fields(part):
        types = TYPES.get(str(field.type))
        if types:
            _check_values(field.name, [getattr(part, field.name)], types)


def _check_numbers(name: str, numbers: Any) -> None:
    if not isinstance(numbers, Mapping):
        raise _invalid(name, numbers)
    _check_values(name, numbers.values(), (int, float))


def _check_values(name: str, values: Iterable[Any], types: tuple[type, ...]) -> None:
    for value in values:
        if not isinstance(value, types):
            raise _invalid(name, value)
        # JSON integers have any length, and Python's parser accepts NaN.
        if isinstance(value, (int, float)) and not abs(value) < MAX_NUMBER:
            raise _invalid(name, value if isinstance(value, float) else "a huge number")


def _invalid(name: str, value: object) -> ValueError:
    return ValueError(f"invalid {name}: {str(value)[:40]!r}")


def _seconds(text: str) -> float | None:
    try:
        # Python 3.10 does not parse the Z.
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
