"""Proves that an environment does not see the future, by changing the future."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from sekai.utils.checks.difference import Difference, first_difference
from sekai.utils.checks.foreknown_fills import check_fills
from sekai.utils.checks.moments import Clock, Moment, learned_state, record, repeat
from sekai.utils.checks.report import CheckStopped, Report, described
from sekai.utils.checks.subject import Subject, subject_of
from sekai.utils.perturbation import KINDS, Perturbable, Stamped, last_time, missing_times, perturbed

__all__ = ["FILL_KEYS", "Perturbable", "Stamped", "check_causal"]

FILL_KEYS = ("fill", "fills", "fill_price", "fill_prices", "executed_price", "executed_prices")
"""Names in `info` under which envs tell at what price an order was executed."""
