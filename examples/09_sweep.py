"""Search settings over trials; the best one by validation is evaluated on the test part alone."""

from __future__ import annotations

import argparse
from pathlib import Path

import sekai

FILE = Path(__file__).with_name("sweep.toml")


def main() -> None:
    """Run the sweep of `sweep.toml`, also: `sekai sweep examples/sweep.toml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs"))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--steps", type=int, default=512, help="steps of each trial")
    options = parser.parse_args()
    result = sekai.run_sweep(
        FILE,
        trials=options.trials,
        overrides={"train.steps": options.steps},
        runs=options.folder,
        progress=True,
    )
    for trial in result.trials:
        print(f"{trial.number}  {trial.state:9}  {trial.score:8.3f}  {dict(trial.settings)}")
    print(f"\nbest: {result.run.path}, on the test part:\n{result.evaluation}")


if __name__ == "__main__":
    main()
