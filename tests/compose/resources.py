"""Resources of a process, and programs run in a new process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def resources() -> dict[str, int]:
    """Descriptors, threads, children, shared-memory segments and mappings of this process."""
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    mapped = Path("/proc/self/maps").read_text()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "children": len(children),
        # Other programs have segments too: only those that this one has mapped are counted.
        "segments": mapped.count("/dev/shm/"),
        "mappings": mapped.count("memfd:sekai"),
    }


def resident_bytes() -> int:
    """The memory that this process has in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_running(process: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(processes: list[int], seconds: float = 10.0) -> None:
    """Wait until none of the processes runs."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, processes)):
        assert time.monotonic() < deadline, f"{processes} still run"
        time.sleep(0.02)


def started(folder: Path, program: str) -> subprocess.Popen[str]:
    """A Python program, begun in a process of its own."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
