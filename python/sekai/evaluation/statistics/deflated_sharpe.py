"""Deflated Sharpe ratio (Bailey and Lopez de Prado, 2012 and 2014), and the trial ledger.

All Sharpe ratios here are per period, not annualized.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import DeflatedSharpe, Flag
from sekai.evaluation.metrics.risk import kurtosis, sharpe, skewness
from sekai.evaluation.statistics.bootstrap import effective_observations
from sekai.evaluation.statistics.significance import normal_cdf, normal_quantile
from sekai.storage.files import append_line

__all__ = [
    "Ledger",
    "TornLineWarning",
    "Trial",
    "TrialLedger",
    "deflated_sharpe",
    "deflated_sharpe_of",
    "effective_trials",
    "expected_best_sharpe",
    "minimum_track_record",
    "probabilistic_sharpe",
    "record_deflated_sharpe",
]

Floats = NDArray[np.float64]
EULER_MASCHERONI = 0.5772156649015329


def probabilistic_sharpe(
    ratio: float, observations: float, skew: float = 0.0, kurt: float = 3.0, against: float = 0.0
) -> float:
    """Probabilistic Sharpe ratio: probability that the true ratio is above `against`."""
    if observations < 2:
        return math.nan
    error = math.sqrt(_variance(ratio, skew, kurt) / (observations - 1))
    return normal_cdf((ratio - against) / error) if error > 0 else math.nan


def minimum_track_record(
    ratio: float, skew: float = 0.0, kurt: float = 3.0, against: float = 0.0, level: float = 0.95
) -> float:
    """Minimum track record length: returns needed to tell `ratio` from `against`."""
    if not ratio > against:
        return math.nan if math.isnan(ratio) else math.inf
    return 1.0 + _variance(ratio, skew, kurt) * (normal_quantile(level) / (ratio - against)) ** 2


def expected_best_sharpe(trials: float, variance: float) -> float:
    """Expected maximum Sharpe ratio of trials without skill, given the variance of their ratios."""
    if trials < 1 or not variance >= 0:
        raise ValueError(
            f"trials must be at least 1 and variance at least 0, got {trials} and {variance}"
        )
    if trials == 1:
        return 0.0
    inner = normal_quantile(1.0 - 1.0 / trials)
    outer = normal_quantile(1.0 - 1.0 / (trials * math.e))
    best = (1.0 - EULER_MASCHERONI) * inner + EULER_MASCHERONI * outer
    return math.sqrt(variance) * max(0.0, best)


def deflated_sharpe(
    ratio: float,
    observations: float,
    trials: float,
    variance: float,
    skew: float = 0.0,
    kurt: float = 3.0,
) -> float:
    """Deflated Sharpe ratio: probability of skill after correction for the number of trials."""
    best = expected_best_sharpe(trials, variance)
    return probabilistic_sharpe(ratio, observations, skew, kurt, against=best)


def effective_trials(returns: Floats) -> float:
    """Effective number of independent trials, from the mean correlation of their returns.

    Args:
        returns: returns, steps by trials, such as of a grid of similar settings.
    """
    count = int(returns.shape[1])
    if count < 2:
        return float(count)
    correlations = np.corrcoef(returns, rowvar=False)
    mean = (float(np.sum(correlations)) - count) / (count * (count - 1))
    shared = min(max(mean, 0.0), 1.0)
    return shared + (1.0 - shared) * count


def deflated_sharpe_of(returns: Floats, trials: Sequence[float] | int) -> DeflatedSharpe:
    """Deflated Sharpe ratio of returns, with the effective sample size of autocorrelated ones.

    Args:
        returns: returns of the agent by step.
        trials: Sharpe ratios per period of all agents evaluated on this data, including this one,
            NaN where undefined; or only their number.
    """
    ratios = [] if isinstance(trials, (int, np.integer)) else list(trials)
    count = int(trials) if isinstance(trials, (int, np.integer)) else len(ratios)
    if count < 1:
        raise ValueError(f"trials must be at least 1, including the agent's own, got {count}")
    ratio, skew, kurt = sharpe(returns, 1.0), skewness(returns), kurtosis(returns)
    effective = effective_observations(returns)
    best = expected_best_sharpe(count, _variance_of_trials(ratios, effective))
    needed = minimum_track_record(ratio, skew, kurt)
    return DeflatedSharpe(
        trials=count,
        observations=len(returns),
        sharpe=ratio,
        expected_best=best,
        probabilistic=probabilistic_sharpe(ratio, effective, skew, kurt),
        deflated=probabilistic_sharpe(ratio, effective, skew, kurt, against=best),
        minimum_track_record=needed * len(returns) / effective if effective else needed,
    )


class TornLineWarning(UserWarning):
    """Malformed line of a trial ledger, usually of a process that was killed while writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One evaluation of an agent on a data set."""

    data_digest: str
    name: str
    sharpe: float
    """Sharpe ratio per period; NaN if undefined."""

    model: str = ""
    """Digest of the agent's file; "" if there is none."""

    recorded: str = ""
    """Time of the evaluation, UTC, ISO 8601."""

    invalid: tuple[str, ...] = ()
    """Flags that invalidate the results, such as look_ahead; the trial counts all the same."""


class TrialLedger:
    """Trial ledger: append-only file with one JSON line for each evaluation.

    Concurrent writers are safe: a trial is one append, on disk before `record` returns. A line
    torn by a crash is skipped with a warning.

    Args:
        path: the file, created by the first record in an existing folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def record(
        self,
        data_digest: str,
        name: str,
        sharpe: float,
        model: str = "",
        invalid: Sequence[str] = (),
    ) -> Trial:
        """Append a trial.

        Args:
            data_digest: digest of the data.
            name: name of the agent.
            sharpe: Sharpe ratio per period, not annualized.
            model: digest of the agent's file, which counts once however often it is evaluated;
                without one, every record counts.
            invalid: names of flags that invalidate the results.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        trial = Trial(
            data_digest=data_digest,
            name=name,
            sharpe=float(sharpe),
            model=model,
            recorded=now,
            invalid=tuple(invalid),
        )
        fields = asdict(trial) | {"sharpe": sharpe if math.isfinite(sharpe) else None}
        append_line(self.path, json.dumps(fields, allow_nan=False).encode())
        return trial

    def trials(self, data_digest: str) -> list[Trial]:
        """Trials on this data, oldest first; of the same model the latest."""
        latest: dict[object, Trial] = {}
        for index, trial in enumerate(self._all()):
            if trial.data_digest == data_digest:
                latest[trial.model or index] = trial
        return list(latest.values())

    def sharpes(self, data_digest: str) -> list[float]:
        """Sharpe ratios of the trials on this data, for `deflated_sharpe_of`.

        Those of invalid trials are NaN: they count, but say nothing about ratios of other trials.
        """
        return [math.nan if trial.invalid else trial.sharpe for trial in self.trials(data_digest)]

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
                    f"malformed line {number} of {self.path} skipped: {error}",
                    TornLineWarning,
                    stacklevel=3,
                )


Ledger = TrialLedger | str | os.PathLike[str]


def record_deflated_sharpe(
    returns: Floats,
    data_digest: str,
    name: str,
    model: str,
    ledger: Ledger | None,
    flags: Sequence[Flag],
) -> DeflatedSharpe | None:
    """Deflated Sharpe ratio of returns after recording the trial; None for fewer than 3 returns.

    Args:
        returns: returns of the agent.
        data_digest: digest of the data.
        name: name of the agent.
        model: digest of the agent's file, or "".
        ledger: trial ledger to which this trial is added; None counts this trial only.
        flags: flags of the evaluation; errors mark the trial as invalid, and then there is no
            probability of skill.
    """
    if len(returns) < 3:
        return None
    invalid = [flag.name for flag in flags if flag.level == "error"]
    trials: Sequence[float] | int = 1
    if ledger is not None:
        book = ledger if isinstance(ledger, TrialLedger) else TrialLedger(ledger)
        book.record(data_digest, name, sharpe(returns, 1.0), model, invalid)
        trials = book.sharpes(data_digest)
    result = deflated_sharpe_of(returns, trials)
    if not invalid:
        return result
    return replace(result, is_valid=False, probabilistic=math.nan, deflated=math.nan)


def _variance(ratio: float, skew: float, kurt: float) -> float:
    """Variance of an estimated Sharpe ratio, times the number of returns less 1."""
    return 1.0 - skew * ratio + (kurt - 1.0) / 4.0 * ratio**2


def _variance_of_trials(ratios: Sequence[float], observations: float) -> float:
    """Variance of the ratios of trials; if unknown, that of ratios without skill."""
    known = [ratio for ratio in ratios if math.isfinite(ratio)]
    if len(known) >= 2:
        return float(np.var(known, ddof=1))
    return 1.0 / max(observations - 1.0, 1.0)


def _trial(fields: dict[str, Any]) -> Trial:
    ratio = fields["sharpe"]
    texts = {name: fields[name] for name in ("data_digest", "name", "model", "recorded")}
    if any(not isinstance(text, str) for text in texts.values()):
        raise TypeError("data_digest, name, model and recorded must be strings")
    invalid = fields.get("invalid", [])
    if not isinstance(invalid, list) or any(not isinstance(name, str) for name in invalid):
        raise TypeError("invalid must be a list of strings")
    ratio = math.nan if ratio is None else float(ratio)
    return Trial(sharpe=ratio, invalid=tuple(invalid), **texts)
