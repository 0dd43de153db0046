"""Every agent that was ever judged on some data, so that the number of trials is known."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

__all__ = ["TornLineWarning", "Trial", "TrialLedger"]


class TornLineWarning(UserWarning):
    """A line of a ledger that cannot be read: whoever wrote it was stopped in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One agent, judged once."""

    data_digest: str
    """What identifies the data."""

    name: str
    sharpe: float
    """Of one period, not annualised; NaN where there is none."""

    model: str = ""
    """What identifies the agent; "" where nothing does."""

    recorded: str = ""
    """When, in UTC, as ISO 8601."""


class TrialLedger:
    """A file of trials that only grows: a line of JSON for each, never changed.

    Many processes may write at once: each trial is one write at the end of the file, on disk
    before `record` returns. A line that was torn by a crash is passed over with a warning, and
    costs no other.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the file, which need not be there yet, in a folder that is."""
        self.path = Path(path)

    def record(self, data_digest: str, name: str, sharpe: float, model: str = "") -> Trial:
        """Add a trial.

        Args:
            data_digest: what identifies the data that the agent was judged on.
            name: what the agent is called.
            sharpe: its ratio of one period, not annualised.
            model: the digest of the agent's file: the same agent counts once, however often it
                is judged. Without one, every record counts.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        trial = Trial(
            data_digest=data_digest, name=name, sharpe=float(sharpe), model=model, recorded=now
        )
        words = asdict(trial) | {"sharpe": sharpe if math.isfinite(sharpe) else None}
        self._append(json.dumps(words, allow_nan=False))
        return trial

    def trials(self, data_digest: str) -> list[Trial]:
        """The agents judged on this data, oldest first; of the same agent, what was told last."""
        found: dict[object, Trial] = {}
        for place, trial in enumerate(self._all()):
            if trial.data_digest == data_digest:
                found[trial.model or place] = trial
        return list(found.values())

    def sharpes(self, data_digest: str) -> list[float]:
        """The ratios of these agents: what `honesty_of` counts by."""
        return [trial.sharpe for trial in self.trials(data_digest)]

    def _append(self, text: str) -> None:
        line = f"{text}\n".encode()
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # What a crash left without an end must not swallow this line as well.
            if _is_torn(file):
                line = b"\n" + line
            written = os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes could be written to {self.path}")

    def _all(self) -> Iterator[Trial]:
        if not self.path.exists():
            return
        for number, line in enumerate(self.path.read_bytes().split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                yield _trial(json.loads(line))
            except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
                warnings.warn(
                    f"line {number} of {self.path} is no trial and does not count: {error}",
                    TornLineWarning,
                    stacklevel=3,
                )


def _trial(words: dict[str, Any]) -> Trial:
    sharpe = words["sharpe"]
    texts = {name: words[name] for name in ("data_digest", "name", "model", "recorded")}
    if any(not isinstance(text, str) for text in texts.values()):
        raise TypeError("its names are not all text")
    return Trial(sharpe=math.nan if sharpe is None else float(sharpe), **texts)


def _is_torn(file: int) -> bool:
    """Whether the last byte of a file is not the end of a line."""
    size = os.fstat(file).st_size
    if size == 0:
        return False
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) != b"\n"
