"""Sample sessions and training runs, and a process that updates its status."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from sekai.experiment.run_folder import RunFolder
from sekai.live.config import SessionFolder
from sekai.live.feed import FeedHealth
from sekai.live.status import LatencySummary, OrderLine, SessionStatus
from sekai.storage.files import replace_file

HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
TOKEN = "a-token-of-forty-three-letters-for-the-tests"

ENDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)


def stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def latency(scale: float, count: int) -> LatencySummary:
    shares = [1 - math.exp(-end / scale) for end in ENDS]
    buckets = tuple((end, int(count * share)) for end, share in zip(ENDS, shares, strict=True))
    p50, p99, p999 = (-scale * math.log(1 - share) for share in (0.5, 0.99, 0.999))
    return LatencySummary(
        count=count, p50=p50, p99=p99, p999=p999, largest=9 * scale, buckets=buckets,
        total=count * scale,
    )  # fmt: skip


def order(number: int, state: str) -> OrderLine:
    asset = ("BTC-USD", "ETH-USD", "SOL-USD")[number % 3]
    filled = 12.5 if state == "filled" else 0.0
    reason = "more than the limit of one order" if state == "refused" else ""
    time = stamp(datetime.now(timezone.utc) - timedelta(seconds=60 * number))
    return OrderLine(
        time=time, id=f"paper-{900 - number}-{asset}", asset=asset, units=(-1) ** number * 12.5,
        filled=(-1) ** number * filled, price=61_234.5 if filled else 0.0, state=state,
        reason=reason,
    )  # fmt: skip


def sample(step: int = 0, **changes: object) -> SessionStatus:
    """A session that trades, as it is after so many moments."""
    now = datetime.now(timezone.utc)
    path = [100_000 * (1 + 0.02 * math.sin(at / 40) + at / 9000) for at in range(200 + step)]
    states = ("filled", "acknowledged", "refused", "filled", "rejected", "filled", "expired")
    status = SessionStatus(
        session="paper", state="trading", updated=stamp(now), bars=200 + step, decisions=199 + step,
        orders_sent=340 + step, orders_refused=7, fills=312 + step, equity=path[-1],
        cash=23_456.78, profit=path[-1] - 100_000, drawdown=1 - path[-1] / max(path), gross=1.13,
        net=0.41, costs={"commission": 123.4, "spread": 87.65, "funding": -4.2},
        positions={
            "BTC-USD": {"units": 0.6512, "price": 61_234.5, "value": 39_875.9, "weight": 0.392},
            "ETH-USD": {"units": -11.5, "price": 3_180.2, "value": -36_572.3, "weight": -0.36},
            "SOL-USD": {"units": 260.0, "price": 148.31, "value": 38_560.6, "weight": 0.378},
            "EUR-USD": {"units": 10.0, "price": 1.0843, "value": 10.8, "weight": 0.0001},
        },
        price_decimals={"BTC-USD": 2, "ETH-USD": 2, "SOL-USD": 3, "EUR-USD": 5},
        orders=tuple(order(number, states[number % 7]) for number in range(20)),
        equity_times=tuple(stamp(now - timedelta(minutes=at)) for at in range(len(path), 0, -1)),
        equity_values=tuple(path),
        latency={
            "feed_to_decision": latency(0.31, 4000 + step),
            "decision_to_order": latency(0.12, 340 + step),
            "order_to_fill": latency(7.5, 312 + step),
        },
        feed=FeedHealth(
            received=48_213 + step, duplicates=3, late=1, gaps=2, missing=5, garbage=1,
            reconnects=1, is_connected=True, last_receive_time=time.time_ns(),
        ),
        alerts=("the feed was gone for 3.2 s and came back", "an order was refused: too large"),
    )  # fmt: skip
    return replace(status, **changes)  # type: ignore[arg-type]


def put(folder: SessionFolder, status: SessionStatus) -> None:
    """Replace the status, as a session does."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with replace_file(folder.status, ".json") as draft:
        draft.write_text(status.to_json(), encoding="utf-8")


def begin_run(root: Path, name: str = "demo", rows: int = 60, state: str = "running") -> RunFolder:
    """A training that has told something."""
    run = RunFolder(root / name)
    facts = {"env": "Portfolio-v0", "algorithm": "ppo", "seed": 1, "planned_steps": 100_000}
    run.begin("", {"state": state, "error": None, **facts})
    for row in range(1, rows + 1):
        learn(run, row)
    return run


def learn(run: RunFolder, row: int) -> None:
    """Another iteration."""
    share = 1 - math.exp(-row / 25)
    run.curve(row * 1024, {
        "episode_return": -1.2 + 1.5 * share + 0.1 * math.sin(row), "episode_length": 252.0,
        "loss_objective": -0.02 * share, "loss_critic": 0.8 * (1 - share) + 0.05,
        "clip_fraction": 0.1 * (1 - share), "gradient_norm": 4 + math.cos(row),
    })  # fmt: skip


def main(folder: SessionFolder, seconds: float) -> None:
    """Be a session: write, and heed the kill switch."""
    end, step, requested = time.monotonic() + seconds, 0, ""
    while time.monotonic() < end:
        step += 1
        changes: dict[str, object] = {}
        if folder.kill.exists():
            now = datetime.now(timezone.utc)
            requested = requested or stamp(now)
            changes = {"kill_requested": requested, "kill_detail": "2 orders being cancelled"}
            if now - datetime.fromisoformat(requested) > timedelta(seconds=1.5):
                changes |= {"kill_obeyed": stamp(now), "kill_detail": "2 orders cancelled"}
                changes |= {"state": "killed", "reason": "the file KILL is there"}
        else:
            requested = ""
        put(folder, sample(step, **changes))
        time.sleep(0.2)


if __name__ == "__main__":
    main(SessionFolder(Path(sys.argv[1])), float(json.loads(sys.argv[2])))
