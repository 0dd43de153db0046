"""Study of Optuna in a journal file, which continues after a kill as if there had been none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.experiment.run_folder import ExperimentError
from sekai.storage.files import replace_file
from sekai.storage.optional import optional_import

if TYPE_CHECKING:
    import optuna

KEPT_ATTRIBUTES = ("grid_id", "search_space")
"""Attributes of an unfinished trial that stay: its point of a grid."""


class TrialStudy:
    """Optuna's trials by number, asked and told by one process.

    Args:
        file: the journal, created if absent; its name ends in .journal.
        name: name of the study.
        maximizes: prefer higher values.
        distributions: distributions of Optuna by setting.
        sampler: makes the sampler of a trial from its number.
        pruner: makes a pruner without memory.
    """

    def __init__(
        self,
        file: Path,
        name: str,
        *,
        maximizes: bool,
        distributions: Mapping[str, optuna.distributions.BaseDistribution],
        sampler: Callable[..., optuna.samplers.BaseSampler],
        pruner: Callable[[], optuna.pruners.BasePruner],
    ) -> None:
        self._optuna = optional_import("optuna", "sweep", "A sweep")
        self._file, self._name = file, name
        self._direction = "maximize" if maximizes else "minimize"
        self._distributions, self._sampler, self._pruner = dict(distributions), sampler, pruner
        self._running: dict[int, optuna.Trial] = {}
        # Samplers are set for each trial; this one has no say in what is told.
        self._told_by = self._optuna.samplers.RandomSampler(seed=0)
        # A process that was killed may have left its lock, and this one is the only one.
        Path(f"{file}.lock").unlink(missing_ok=True)
        self._study = self._opened(file)

    def rewind(self) -> list[int]:
        """Queue trials that were not finished, with their settings, and return their numbers.

        The journal is written anew without what they reported.
        """
        records = self._study.get_trials(deepcopy=False)
        if not records:
            # The line that a killed process was writing must not stay.
            self._file.unlink()
            self._study = self._opened(self._file)
            return []
        states = self._optuna.trial.TrialState
        unfinished = [record for record in records if not record.state.is_finished()]
        with replace_file(self._file, ".journal") as draft:
            study = self._opened(draft)
            for record in records:
                if not record.state.is_finished():
                    study.add_trial(
                        self._optuna.trial.create_trial(
                            state=states.WAITING, system_attrs=self._attributes(record)
                        )
                    )
                else:
                    study.add_trial(record)
        self._study = self._opened(self._file)
        return [record.number for record in unfinished]

    @property
    def waiting(self) -> bool:
        """True if a trial is queued to be run again."""
        state = self._optuna.trial.TrialState.WAITING
        return bool(self._study.get_trials(deepcopy=False, states=(state,)))

    def count(self) -> int:
        """Number of trials, unfinished ones included."""
        return len(self._study.get_trials(deepcopy=False))

    def records(self) -> list[optuna.trial.FrozenTrial]:
        """All trials, in the order of their numbers."""
        return self._study.get_trials(deepcopy=False)

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Number and settings of the next trial; of a queued one first."""
        state = self._optuna.trial.TrialState.WAITING
        queued = self._study.get_trials(deepcopy=False, states=(state,))
        self._study.sampler = self._sampler(queued[0].number if queued else self.count())
        with self._quiet():
            trial = self._study.ask(self._distributions)
        self._study.sampler = self._told_by
        self._running[trial.number] = trial
        return trial.number, dict(trial.params)

    def report(self, number: int, evaluation: int, value: float) -> bool:
        """Record an evaluation of a running trial; return True if it should be pruned."""
        trial = self._running[number]
        if evaluation in self._study.get_trials(deepcopy=False)[number].intermediate_values:
            # Of a trial that was started again, and that was not pruned here the first time.
            return False
        trial.report(value, evaluation)
        self._study.pruner = self._pruner()
        return bool(trial.should_prune())

    def tell(self, number: int, state: str, value: float, attributes: Mapping[str, Any]) -> None:
        """Record the end of a trial: "complete" with its value, "pruned" or "failed"."""
        trial, states = self._running.pop(number), self._optuna.trial.TrialState
        for name, attribute in attributes.items():
            trial.set_user_attr(name, attribute)
        if state == "complete":
            self._study.tell(trial, value)
        else:
            self._study.tell(trial, state=states.PRUNED if state == "pruned" else states.FAIL)

    def _attributes(self, record: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """Attributes of an unfinished trial that is queued: its settings, if it had all of them."""
        known = record.system_attrs
        kept = {name: known[name] for name in KEPT_ATTRIBUTES if name in known}
        params = record.params or known.get("fixed_params", {})
        is_sampled = params.keys() == self._distributions.keys()
        return {**kept, "fixed_params": params} if is_sampled else kept

    def _opened(self, file: Path) -> optuna.Study:
        journal = self._optuna.storages.journal
        try:
            with self._quiet():
                backend = journal.JournalFileBackend(
                    str(file), journal.JournalFileOpenLock(str(file))
                )
                study: optuna.Study = self._optuna.create_study(
                    storage=self._optuna.storages.JournalStorage(backend),
                    study_name=self._name,
                    direction=self._direction,
                    load_if_exists=True,
                )
                _ = study.get_trials(deepcopy=False)
                return study
        except (ValueError, KeyError, TypeError) as error:
            raise ExperimentError(
                f"{file} cannot be read: {error}; start another sweep with --name"
            ) from error

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Context without the messages of Optuna, which name neither file nor trial folder."""
        import warnings

        logging = self._optuna.logging
        before = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
                yield
        finally:
            logging.set_verbosity(before)
