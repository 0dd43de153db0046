"""Public names and signatures change deliberately."""

from __future__ import annotations

import difflib

from tests.contract.public_api import FILE, public_api


def test_the_public_api_is_the_recorded_one() -> None:
    recorded, actual = FILE.read_text(encoding="utf-8"), public_api()

    changes = difflib.unified_diff(
        recorded.splitlines(), actual.splitlines(), "recorded", "actual", lineterm="", n=0
    )

    assert actual == recorded, (
        "the public API changed; if that is intended, run `python tests/contract/public_api.py`:\n"
        + "\n".join(changes)
    )
