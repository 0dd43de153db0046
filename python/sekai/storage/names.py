"""Did-you-mean: suggestions for unknown names in error messages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["close_matches", "did_you_mean", "unknown_name"]

SHOWN = 3
LONGEST = 100
LISTED = 20


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Suffix of an error about an unknown name: the closest options, or a few of all."""
    known = list(options)
    close = close_matches(name, known)
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    some = sorted(known)
    more = f" and {len(some) - 2 * SHOWN} more" if len(some) > 2 * SHOWN else ""
    return f"; expected one of {', '.join(some[: 2 * SHOWN])}{more}" if some else "; there are none"


def unknown_name(kind: str, name: object, options: Iterable[str]) -> str:
    """Error about an unknown name: the closest options, then all of them, or the first of many."""
    known = list(options)
    close = close_matches(name, known) if isinstance(name, str) else []
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return f"unknown {kind} {name!r}; {hint}expected one of {known[:LISTED]}{more}"


def close_matches(name: str, options: Iterable[str], count: int = SHOWN) -> list[str]:
    """Up to `count` options that are spelled like `name`, whatever the case, closest first."""
    # Imported here: it is needed when something went wrong, not on every `import sekai`.
    from difflib import get_close_matches

    by_lower_case: dict[str, list[str]] = {}
    for option in sorted(options):
        by_lower_case.setdefault(option.lower(), []).append(option)
    close = get_close_matches(name[:LONGEST].lower(), by_lower_case, n=count)
    return [option for lowered in close for option in by_lower_case[lowered]][:count]
