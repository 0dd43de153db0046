"""Did-you-mean: suggestions for unknown names in error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

SHOWN = 3
LONGEST = 100
LISTED = 20


def did_you_mean(
    name: str, options: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """Suffix of an error about an unknown name: the closest options, or a few of all.

    Args:
        name: the unknown name.
        options: known names.
        aliases: options by names that other packages give them; those that are not known are left
            out.
    """
    known = list(options)
    alias = (aliases or {}).get(name.lower())
    close = [alias] if alias is not None and alias in known else close_matches(name, known)
    if close:
        return suggestion(close)
    some = sorted(known)
    more = f" and {len(some) - 2 * SHOWN} more" if len(some) > 2 * SHOWN else ""
    return f"; expected one of {', '.join(some[: 2 * SHOWN])}{more}" if some else "; there are none"


def unknown_name(kind: str, name: object, options: Iterable[str]) -> str:
    """Error about an unknown name: the closest options, then all of them, or the first of many."""
    known = list(options)
    close = close_matches(name, known) if isinstance(name, str) else []
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    hint = f"{suggestion(close)} expected" if close else "; expected"
    return f"unknown {kind} {name!r}{hint} one of {known[:LISTED]}{more}"


def suggestion(close: Sequence[str]) -> str:
    """Suffix of an error about an unknown name: the names that may be meant, if there are any."""
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def close_matches(name: str, options: Iterable[str], count: int = SHOWN) -> list[str]:
    """Up to `count` options that are spelled like `name`, whatever the case, closest first."""
    # Imported here: it is needed when something went wrong, not on every `import sekai`.
    from difflib import get_close_matches

    by_lower_case: dict[str, list[str]] = {}
    for option in sorted(options):
        by_lower_case.setdefault(option.lower(), []).append(option)
    close = get_close_matches(name[:LONGEST].lower(), by_lower_case, n=count)
    return [option for lowered in close for option in by_lower_case[lowered]][:count]
