"""What a paper session was begun with, so that it goes on with the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sekai.cli.failure import CommandError
from sekai.storage.strict_json import parsed

__all__ = ["PaperOptions", "ending_of"]

Ending = Literal["hold", "flatten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """What was asked for on the command line; None where nothing was."""

    feed: str | None = None
    """The feed file; without one, the rows that the agent was judged on."""

    limits: dict[str, Any] | None = None
    """What no policy may exceed, as `RiskLimits.from_dict` takes it."""

    speed: float | None = None
    on_stop: Ending | None = None

    def save(self, file: Path) -> None:
        """Keep it; who is killed meanwhile leaves the old file."""
        from sekai.live.whole_file import replaced

        replaced(file, f"{json.dumps(asdict(self), indent=1)}\n".encode(), wait=True)

    @classmethod
    def begun_with(cls, file: Path) -> PaperOptions:
        """What `save` kept; nothing if the session has not come so far."""
        if not file.exists():
            return cls()
        try:
            return cls(**parsed(file.read_text(encoding="utf-8")))._checked()
        except (OSError, ValueError, TypeError) as error:
            raise CommandError(
                f"{file} does not say what the session was begun with: {error}. Without it, give "
                f"the same --feed and --limits as then"
            ) from error

    def _checked(self) -> PaperOptions:
        kinds = {"feed": str, "limits": dict, "speed": (int, float), "on_stop": str}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):  # type: ignore[arg-type]
                raise ValueError(f"{name} cannot be {value!r:.80}")
        ending_of(self.on_stop)
        return self

    def or_else(self, other: PaperOptions) -> PaperOptions:
        """The same, with what `other` says where nothing was asked for."""
        mine = {name: value for name, value in asdict(self).items() if value is not None}
        return PaperOptions(**{**asdict(other), **mine})


def ending_of(word: str | None) -> Ending | None:
    """What becomes of positions in the end, as somebody typed it."""
    if word is None or word in ("hold", "flatten"):
        return word  # type: ignore[return-value]
    raise CommandError(f"--on-stop must be hold or flatten, was {word!r}")
