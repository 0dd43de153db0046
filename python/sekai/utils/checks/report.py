"""Collects what checks find, each thing once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

__all__ = ["CheckStopped", "Report", "described"]


@dataclasses.dataclass(slots=True)
class _Finding:
    level: str
    sentence: str
    count: int = 1


class Report:
    """Errors and warnings, in the order in which they were first found.

    A broken env is mostly broken at every step, so a finding carries a topic: the first sentence
    on a topic is kept, and how often it came up is counted.
    """

    def __init__(self) -> None:
        self._findings: dict[str, _Finding] = {}

    @property
    def has_errors(self) -> bool:
        """Whether anything worse than a warning was found."""
        return any(finding.level == "ERROR" for finding in self._findings.values())

    def error(self, topic: str, sentence: str) -> None:
        """Something that breaks the contract."""
        self._add("ERROR", topic, sentence)

    def warn(self, topic: str, sentence: str) -> None:
        """Something that is allowed and probably not meant."""
        self._add("WARNING", topic, sentence)

    def lines(self, with_warnings: bool = True) -> list[str]:
        """The findings as `check_env` returns them."""
        levels = ("ERROR", "WARNING") if with_warnings else ("ERROR",)
        return [_line(finding) for finding in self._findings.values() if finding.level in levels]

    def guarded(self, check: Callable[[], object]) -> None:
        """Run a check that must not stop the others: what it raises is one more finding."""
        try:
            check()
        except Exception as error:
            self.error(f"guarded {error}", described(error))

    def _add(self, level: str, topic: str, sentence: str) -> None:
        key = f"{level} {topic}"
        if key in self._findings:
            self._findings[key].count += 1
        else:
            self._findings[key] = _Finding(level, sentence)


class CheckStopped(Exception):  # noqa: N818 - it ends a check, and says what the env did wrong
    """A check cannot go on, for the reason that is its message."""


def described(error: BaseException) -> str:
    """What was raised and where, in one line."""
    if isinstance(error, CheckStopped):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{_place(error)}"


def _place(error: BaseException) -> str:
    traceback = error.__traceback__
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    file_name = traceback.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f" ({file_name} line {traceback.tb_lineno})"


def _line(finding: _Finding) -> str:
    often = f" ({finding.count} times in all)" if finding.count > 1 else ""
    return f"{finding.level}: {finding.sentence}{often}"
