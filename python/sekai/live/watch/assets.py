"""The page and what it is made of; nothing comes from anywhere else."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files

from sekai.error import MissingExtraError

__all__ = ["SCRIPTS", "STYLES", "content_policy", "page", "part", "zipped_plotly"]

SCRIPTS = (
    "theme.js",
    "plotly.js",
    "elements.js",
    "numbers.js",
    "charts.js",
    "session.js",
    "kill_switch.js",
    "training.js",
    "tabs.js",
    "stream.js",
)
"""In the order in which they run."""

STYLES = ("report.css", "watch.css")

SHARED = {"theme.js": "theme.js", "report.css": "style.css"}
"""What the page has in common with reports, and what it is called there."""


def page(nonce: str) -> str:
    """The page; scripts run only by the word that was made for this very answer."""
    styles = "\n".join(f'<link rel="stylesheet" href="/assets/{name}">' for name in STYLES)
    # The theme first, so that a dark page does not begin with a flash of white.
    theme, *others = (f'<script nonce="{nonce}" src="/assets/{name}"></script>' for name in SCRIPTS)
    found = part("page.html").replace("{{ styles }}", styles).replace("{{ theme }}", theme)
    return found.replace("{{ scripts }}", "\n".join(others))


def content_policy(nonce: str) -> str:
    """What a browser lets the page do: run these scripts, and speak to nobody but this watcher."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src data: blob:; font-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


@cache
def zipped_plotly() -> bytes:
    """What draws charts, made small: over a tunnel it is most of what is sent."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingExtraError.of("plotly", "live,cli", "the page to watch") from error
    return gzip.compress(str(get_plotlyjs()).encode("utf-8"), compresslevel=6, mtime=0)


@cache
def part(name: str) -> str:
    """A script or a style of the page, other than plotly."""
    package = "sekai.evaluation.report" if name in SHARED else "sekai.live.watch"
    file = files(package) / "templates" / SHARED.get(name, name)
    return file.read_text(encoding="utf-8")
