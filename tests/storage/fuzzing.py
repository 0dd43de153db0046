"""Reads mutated data files in a process of its own, and reports what they had it do.

Run as `python -m tests.storage.fuzzing FOLDER SEED COUNT`; prints a line of JSON. From the moment
that the valid files have been read once, nothing may be imported, executed, written or connected
to, no read may raise an error other than the documented ones, and memory is limited.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY = 2**30
"""Bytes that reading may take beside what the process has when the first file is read."""

SLOW_SECONDS = 20.0

FORBIDDEN = (
    "exec", "compile", "import", "open", "os.system", "os.exec", "os.fork", "os.forkpty",
    "os.posix_spawn", "os.spawn", "os.startfile", "os.remove", "os.rename", "os.mkdir", "os.rmdir",
    "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.putenv", "os.kill",
    "subprocess.Popen", "socket.", "shutil.", "pickle.find_class", "marshal.", "ctypes.",
    "tempfile.", "urllib.", "webbrowser.", "code.__new__", "sqlite3.",
)  # fmt: skip
READING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass
class Guard:
    """Notes what is done while it is armed."""

    is_armed: bool = False
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.is_armed or not event.startswith(FORBIDDEN):
            return
        if event == "open" and _is_reading(given):
            return
        caller = sys._getframe(1).f_code.co_filename
        if event in ("exec", "compile") and (
            # Annotations of sekai's own source, and text that is parsed and never run.
            caller.endswith("typing.py") or given[1:] == ("<unknown>",)
        ):
            return
        self.seen.append(f"{event} {given!r:.200}")


def _is_reading(given: tuple[Any, ...]) -> bool:
    _, mode, flags = given
    if isinstance(mode, str):
        return not set(mode) & set("wax+")
    return isinstance(flags, int) and not flags & ~READING & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)


HOSTILE: list[Any] = [
    "os:system", "antigravity:fly", "sekai.live.runner:os.system", "sekai.__main__:app",
    "sekai.vector.proc:weakref.finalize", "__import__", "../../etc/passwd", "\0", "$", "",
    "x" * 5000,
    {"$import": "os:system"}, {"$import": "antigravity:fly"}, {"$kind": "os:system"},
    {"$kind": "Costs"}, {"$object": ["subprocess:Popen", {"args": "true"}]},
    {"$object": ["Costs", {}]}, {"$object": ["Costs", {"half_spread": {"$import": "os:x"}}]},
    {"$object": ["MarketConfig", {"symbols": 7}]},
    {"$object": ["PopulationConfig", {"makers": -1}]},
    {"$object": ["Pipeline", {"features": ["((((" * 99]}]}, {"$object": ["DayTicks", {}]},
    {"$dataclass": ["os:system", {}]}, {"$jsonable": ["sekai:make", []]},
    {"$enum": ["OrderDir", "mro"]},
    {"$enum": ["Costs", "x"]}, {"$pickle": "gASV"}, {"$tuple": []}, {"$dict": [[[], 1]]},
    {"$dict": [[{"$set": []}, 1]]}, {"$set": [[1]]}, {"$frozenset": [{"$float": "nan"}]},
    {"$float": "nan"}, {"$float": 7}, {"$complex": [1, "x"]}, {"$bytes": "AAAA"}, {"$bytes": "%"},
    {"$bytes": ["network", "|u1"]}, {"$path": "/etc/passwd"}, {"$path": "\0"}, {"$date": "x"},
    {"$datetime": "2024-01-02T03:04:05+99:00"}, {"$timedelta": [10**300, 0, 0]},
    {"$type": "object"}, {"$type": "numpy.object_"}, {"$dtype": "|O"}, {"$dtype": [["a", "|O"]]},
    {"$dtype": "f8,(2,)f8"},
    {"$dtype": {"$tuple": ["<f8", [2**62]]}}, {"$array": ["x", "<f8"]}, {"$tensor": ["x", "|O"]},
    {"$array": {"dtype": "<f8", "shape": [2**60], "base64": ""}},
    {"$array": {"dtype": "<f8", "shape": [-1, -8], "base64": "AAAAAAAAAAA="}},
    {"$array": {"dtype": "|V0", "shape": [2**60], "base64": ""}},
    {"$scalar": {"dtype": "<U1", "shape": [], "base64": "/////w=="}},
    {"$space": {"type": "Box", "low": 0, "high": 1, "shape": [2**26], "dtype": "float32"}},
    {"$space": {"type": "Discrete", "n": 2**70, "start": 0}},
    {"type": "Dict", "spaces": [["a", {"type": "MultiBinary", "n": [2**20, 2**20]}]]},
    {"type": "MultiDiscrete", "nvec": 2**40, "start": 0, "shape": [2**12]},
    {"type": "Box", "low": "inf", "high": [1], "shape": [-1], "dtype": "object"},
    None, True, False, 0, -1, 1, 2**24, 2**31, 2**40, 2**63, -(2**63), 2**64, 2**200, 10**300,
    0.0, -0.0, 0.5, 1e308, -1e308, 5e-324, [], {}, [[]], [None], [-1], [2**40, 2**40], [0, 2**62],
    [2**25], [-(2**25), 1], {"a": {}}, {"": 0},
]  # fmt: skip
KEYS = [
    "$import", "$kind", "$object", "$array", "entry_point", "__class__", "", "shape", "n", "type",
]  # fmt: skip
WORDS = [
    "NaN", "Infinity", "-Infinity", "1e999", "[" * 5000, '{"a":' * 2000, "9" * 5000, "[]," * 500,
]  # fmt: skip


def nodes(tree: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with one of its keys."""
    found: list[tuple[Any, Any]] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], (dict, list)):
                pending.append(node[key])
    return found


def edited(tree: Any, rng: random.Random) -> Any:
    """The tree itself, with one to three places changed."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = nodes(tree)
        if not places:
            return tree
        node, key = rng.choice(places)
        _edit(node, key, places, rng)
    return tree


def _edit(node: Any, key: Any, places: list[tuple[Any, Any]], rng: random.Random) -> None:
    kind = rng.randrange(10)
    if kind < 5:
        node[key] = copy.deepcopy(rng.choice(HOSTILE))
    elif kind == 5:
        other, place = rng.choice(places)
        node[key] = copy.deepcopy(other[place]) if place in _keys(other) else None
    elif kind == 6:
        del node[key]
    elif kind == 7 and isinstance(node, dict):
        node[rng.choice([*KEYS, str(key)])] = node.pop(key)
    elif kind == 8:
        node[key] = {rng.choice(["$tuple", "$set", "$dict", "$object", "$space"]): node[key]}
    else:
        for _ in range(rng.choice([1, 10, 80])):
            node[key] = [node[key]]


def _keys(node: Any) -> Any:
    return node if isinstance(node, dict) else range(len(node))


def edited_text(text: str, rng: random.Random) -> str:
    """A text with a word put in, a part doubled, or a part left out."""
    begin = rng.randrange(len(text) + 1)
    end = min(len(text), begin + rng.randrange(40))
    middle = rng.choice(
        [*WORDS, "", text[begin:end] * 2, json.dumps(rng.choice(HOSTILE)), '"id": 1, "id": 1,']
    )
    return text[:begin] + middle + text[end:]


def edited_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them flipped, put in or left out."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place = rng.randrange(len(changed)) if changed else 0
        kind = rng.randrange(4)
        if kind == 0 and changed:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place:place] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 2:
            del changed[place : place + rng.randrange(1, 9)]
        else:
            del changed[place:]
    return bytes(changed)


def mutated_json(text: str, rng: random.Random) -> str:
    """JSON with its tree or its text changed."""
    if rng.random() < 0.8:
        return json.dumps(edited(json.loads(text), rng))
    return edited_text(text, rng)


Case = Callable[[random.Random], Callable[[], Any]]
"""Prepares a mutated file, and returns what reads it."""


def spec_case() -> Iterator[Case]:
    import sekai
    from sekai.envs import MemberConfig
    from sekai.market import Constraints, Costs, MarketConfig
    from sekai.registry import EnvSpec, WrapperSpec
    from sekai.wrappers import FrameStackObservation, TimeLimit

    costs: dict[str, Any] = {"costs": Costs(), "constraints": Constraints(max_weight=0.4)}
    limit = WrapperSpec(TimeLimit, {"max_episode_steps": 9})
    made: list[Any] = [
        sekai.make("Portfolio-v0", features=["log_return"], wrappers=[limit], **costs),
        FrameStackObservation(sekai.make("Trading-v0", market=MarketConfig()), 2),
        sekai.make("MultiPortfolio-v0", agents={"a": MemberConfig(), "b": MemberConfig()}),
    ]
    for env in made:
        assert env.spec is not None
        text = env.spec.to_json()

        def case(rng: random.Random, text: str = text) -> Callable[[], Any]:
            changed = mutated_json(text, rng)
            return lambda: EnvSpec.from_json(changed)

        yield case


def snapshot_case(folder: Path) -> Iterator[Case]:
    import sekai
    from sekai.data import simulate_gbm
    from sekai.live import snapshot
    from sekai.live.episode import LiveEpisode
    from sekai.live.journal.records import JournalPosition
    from sekai.market import Execution

    env = sekai.make(
        "Portfolio-v0",
        data=simulate_gbm(assets=2, rows=40),
        lookback=3,
        stream=True,
        episode_rows=None,
        execution=Execution(sizing="decision"),
    )
    file = folder / "snapshot.json"
    position = JournalPosition(3, bytes(8), 0, 2)
    snapshot.write_snapshot(file, {"episode": LiveEpisode(env, 3).state_dict()}, position)
    whole = file.read_bytes()
    first, text = whole.decode("ascii").splitlines()[:2]
    place = {name: json.loads(first)[name] for name in ("number", "digest", "segment")}

    def case(rng: random.Random) -> Callable[[], Any]:
        if rng.random() < 0.2:
            file.write_bytes(edited_bytes(whole, rng))
        else:
            changed = mutated_json(text, rng)
            state = snapshot._digest(place, changed)
            head = json.dumps({"format": snapshot.SNAPSHOT_FORMAT, **place, "state": state})
            file.write_text(f"{head}\n{changed}\n", encoding="ascii")
        return lambda: snapshot.read_snapshot(file)

    yield case


def model_case(folder: Path) -> Iterator[Case]:
    import safetensors.numpy

    from sekai.market import MarketConfig, PopulationConfig
    from sekai.policy.files import FORMAT, file_digest, header_of
    from sekai.training import A2C, load_policy

    market = MarketConfig(population=PopulationConfig(noise=3))
    envs: dict[str, dict[str, Any]] = {"MarketMaking-v0": {}, "Trading-v0": {"market": market}}
    small: dict[str, Any] = {"n_envs": 2, "n_steps": 4, "policy": {"net_arch": (4,)}}
    file = folder / "changed.safetensors"
    wholes = [
        A2C(id, env_options=options, **small).fit(8).save(folder / id).read_bytes()
        for id, options in envs.items()
    ]
    samples = [
        (whole, header_of(whole)["sekai"], safetensors.numpy.load(whole)) for whole in wholes
    ]

    def changed(rng: random.Random) -> bytes:
        whole, text, tensors = rng.choice(samples)
        if rng.random() < 0.15:
            return edited_bytes(whole, rng)
        if rng.random() < 0.4:
            content = json.loads(text)
            content["env"] = mutated_json(content["env"], rng)
            words = json.dumps(content)
        else:
            words = mutated_json(text, rng)
        meta = {"format": FORMAT, "sekai": words, "digest": file_digest(words, tensors)}
        return bytes(safetensors.numpy.save(tensors, metadata=meta))

    def case(rng: random.Random) -> Callable[[], Any]:
        file.write_bytes(changed(rng))
        reader: Any = rng.choice([load_policy, load_policy, A2C.load, A2C.resume])
        return lambda: reader(file)

    yield case


CONFIG = """\
[run]
name = "demo"
seed = 3

[env]
id = "Portfolio-v0"
lookback = 10
costs = {proportional = 0.001}

[data]
source = "simulate_regimes"
rows = 300
assets = 3
features = ["log_return", "rank(momentum(20))"]

[train]
algorithm = "ppo"
steps = 64
num_envs = 4

[policy]
hidden = [8]

[evaluate]
seeds = 2
sensitivity = false
"""
FACTS = {
    "state": "finished", "planned_steps": 64, "steps": 64, "env": "Portfolio-v0", "error": None,
    "headline": {"metric": "sharpe", "value": "1.0", "low": "0.5", "high": "nan"},
    "created": "2024-01-01T00:00:00+00:00", "versions": {"python": "3.11"},
}  # fmt: skip
OPTIONS = {"feed": None, "limits": {"max_order_value": 5.0}, "speed": 2.0, "on_stop": "hold"}


def run_case(folder: Path) -> Iterator[Case]:
    import tomli_w

    from sekai.cli.list_runs import headline_text
    from sekai.cli.paper import PaperOptions
    from sekai.cli.training_source import TrainingSource
    from sekai.config.toml_file import ConfigSource, load_toml
    from sekai.evaluation.evaluation_file import load_evaluation, save_evaluation
    from sekai.experiment.reading import read_experiment
    from sekai.experiment.run_folder import RunFolder
    from tests.evaluation.report_samples import rich_evaluation

    run = RunFolder(folder / "run")
    run.begin(CONFIG, FACTS)
    options = run.path / "session.json"
    curve = '{"steps": 8, "loss": 0.5}\n{"steps": 16, "loss": "nan"}\n'
    save_evaluation(rich_evaluation(seeds=2, days=5, assets=2), run.evaluation)
    judged = run.evaluation.read_text(encoding="utf-8")

    def config(rng: random.Random) -> Callable[[], Any]:
        text = edited_text(CONFIG, rng)
        if rng.random() < 0.8:
            tree = edited(load_toml(CONFIG), rng)
            # TOML has no word for some of them.
            with contextlib.suppress(TypeError, ValueError, AttributeError):
                text = tomli_w.dumps(tree)
        run.config.write_text(text, encoding="utf-8", errors="replace")
        return lambda: read_experiment(ConfigSource.read(run.config))

    def facts(rng: random.Random) -> Callable[[], Any]:
        (run.path / "run.json").write_text(mutated_json(json.dumps(FACTS), rng), encoding="utf-8")
        return lambda: (headline_text(run.facts.get("headline")), TrainingSource(run).read())

    def metrics(rng: random.Random) -> Callable[[], Any]:
        run.curve.file.write_bytes(edited_bytes(edited_text(curve, rng).encode(), rng))
        return lambda: (run.curve.columns(), run.curve.last_steps())

    def evaluation(rng: random.Random) -> Callable[[], Any]:
        run.evaluation.write_text(mutated_json(judged, rng), encoding="utf-8")
        return lambda: load_evaluation(run.evaluation)

    def session(rng: random.Random) -> Callable[[], Any]:
        options.write_text(mutated_json(json.dumps(OPTIONS), rng), encoding="utf-8")
        return lambda: PaperOptions.load(options)

    yield from (config, facts, metrics, evaluation, session)


def cases(folder: Path) -> list[tuple[str, float, list[Case]]]:
    """Every kind of file, its share of the cases, and what prepares one."""
    return [
        ("spec", 0.50, list(spec_case())),
        ("snapshot", 0.3, list(snapshot_case(folder))),
        ("model", 0.10, list(model_case(folder))),
        ("run", 0.10, list(run_case(folder))),
    ]


def preload() -> None:
    """Import everything that reading may need, so that each later import is one too many."""
    import gymnasium  # noqa: F401

    # What torch imports by itself when it builds a network without memory.
    import torch._subclasses.schema_check_mode  # noqa: F401

    import sekai.cli.app
    import sekai.compat.gymnasium
    import sekai.compat.gymnasium.namespace
    import sekai.evaluation
    import sekai.live
    import sekai.training  # noqa: F401
    from sekai.data.features.feature import feature_kinds
    from sekai.evaluation.baselines import baseline_names
    from sekai.registry import namespaces
    from sekai.storage.kinds import BUILT_IN, kind_named

    namespaces()
    feature_kinds()
    for name in BUILT_IN:
        kind_named(name)
    baseline_names("Portfolio-v0")


def main(folder: Path, seed: int, count: int) -> dict[str, Any]:
    """Read `count` mutated files and tell what came of it."""
    warnings.simplefilter("ignore")
    guard = Guard()
    preload()
    kinds = cases(folder)
    allowed = _allowed()
    found: dict[str, Any] = {"loaded": 0, "refused": 0, "faults": [], "slowest": 0.0, "kinds": {}}
    sys.addaudithook(guard)
    _warm_up(kinds)
    _limit_memory()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, share, prepared in kinds:
        began = time.monotonic()
        for number in range(round(count * share)):
            rng = random.Random(f"{seed} {kind} {number}")
            read = rng.choice(prepared)(rng)
            fault = _read(read, guard, allowed, found)
            if fault:
                found["faults"].append(f"{kind} {number}: {fault}")
        found["kinds"][kind] = round(time.monotonic() - began, 1)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["megabytes"] = (after - before) // 1024
    found["faults"] = found["faults"][:40]
    return found


def _allowed() -> tuple[type[BaseException], ...]:
    from sekai.error import SekaiError

    # A ValueError is the documented error of `EnvSpec.from_json`; the others are sekai's own.
    return (SekaiError, ValueError)


def _warm_up(kinds: list[tuple[str, float, list[Case]]]) -> None:
    """Read a few files of each kind, so that what is imported once is imported."""
    for _, _, prepared in kinds:
        for case in prepared:
            for number in range(12):
                # Errors count when they are met again: this is for what is imported.
                with contextlib.suppress(Exception):
                    case(random.Random(f"warm-up {number}"))()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _read(read: Callable[[], Any], guard: Guard, allowed: Any, found: dict[str, Any]) -> str:
    began = time.process_time()
    fault = ""
    guard.is_armed = True
    try:
        loaded = read()
        guard.is_armed = False
        close = getattr(loaded, "close", None)
        if callable(close):
            close()
        found["loaded"] += 1
    except allowed:
        found["refused"] += 1
    except BaseException as error:
        fault = "".join(traceback.format_exception_only(type(error), error))[:300]
        last = traceback.extract_tb(error.__traceback__)[-1]
        fault += f" at {last.filename.rpartition('sekai/')[2]}:{last.lineno}"
    finally:
        guard.is_armed = False
    seconds = time.process_time() - began
    found["slowest"] = max(found["slowest"], round(seconds, 2))
    if guard.seen:
        fault += f" {guard.seen[:3]}"
        guard.seen.clear()
    if seconds > SLOW_SECONDS:
        fault += f" {seconds:.0f} seconds"
    return fault


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
