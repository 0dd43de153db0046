"""Search hyperparameters with Optuna; every trial counts in the deflated Sharpe ratio."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import optuna

from sekai.data import simulate_regimes
from sekai.evaluation import evaluate
from sekai.training import PPO

TASK: dict[str, Any] = {"lookback": 5, "episode_rows": 60}


def main() -> None:
    """Split, search on training and validation data, and evaluate the best on test data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/optuna"))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--steps", type=int, default=512, help="steps of each trial")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    data = simulate_regimes(assets=4, rows=1_500, seed=2)
    train, rest = data.split(0.6, embargo=5, warm_up=90)
    validation, test = rest.split(0.5, embargo=5, warm_up=90)

    def objective(trial: optuna.Trial) -> float:
        agent = PPO(
            "Portfolio-v0",
            env_options={**TASK, "data": train},
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            gamma=trial.suggest_categorical("gamma", [0.5, 0.9, 0.99]),
            policy={"width": trial.suggest_categorical("width", [8, 16])},
            n_envs=8,
        ).fit(options.steps)
        path = agent.save(options.folder / f"trial-{trial.number}", training=False)
        # Each evaluated file is one trial of the ledger; more trials deflate the Sharpe ratio more.
        evaluation = evaluate(
            path,
            "Portfolio-v0",
            name=f"trial {trial.number}",
            env_options={**TASK, "data": validation},
            seeds=4,
            baselines=["equal_weight"],
            sensitivity=False,
            ledger=options.folder / "trials.jsonl",
        )
        trial.set_user_attr("path", str(path))
        return evaluation.agent.metrics[evaluation.headline].value

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(objective, n_trials=options.trials)
    print(f"best of {len(study.trials)} trials: {study.best_params}\n")
    print(
        evaluate(
            study.best_trial.user_attrs["path"],
            "Portfolio-v0",
            name="best trial",
            env_options={**TASK, "data": test},
            seeds=4,
            baselines=["equal_weight", "buy_and_hold"],
            sensitivity=False,
        )
    )


if __name__ == "__main__":
    main()
