"""`./run bench growth`: how the core's cost grows with trees, bytes, tasks and open trees.

It runs in one process, without Kafka.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console
from rich.table import Table

from kstorm.core.completion_box import CompletionBox
from kstorm.core.ledger import Ledger
from kstorm.core.wire import VERSION, AckFrame, pack_ids
from tests.bench.inprocess import InProcess

_ROUNDS: Final = 3
_WORDS: Final = [f"word{number}" for number in range(5000)]

Sweep = list[dict[str, float]]
"""Points of a curve: the varied quantity and its costs."""


def measure_growth(console: Console) -> dict[str, Sweep]:
    """Return every sweep by name, and print it as it is measured."""
    sweeps: dict[str, Callable[[], Sweep]] = {
        "tuples_per_tree": tuples_per_tree,
        "message_bytes": message_bytes,
        "tasks": tasks,
        "open_trees": open_trees,
    }
    found: dict[str, Sweep] = {}
    for name, sweep in sweeps.items():
        with console.status(f"measuring: {name}"):
            found[name] = sweep()
        console.print(_table(name, found[name]))
    return found


def tuples_per_tree() -> Sweep:
    """Sentences of 1 to 100 words."""
    return [
        {"words": words, **_cost(_sentences(max(40, 20_000 // words), words), words)}
        for words in (1, 3, 10, 30, 100)
    ]


def message_bytes() -> Sweep:
    """Sentences of one word of 20 bytes to 100 kB."""
    points = []
    for size in (20, 200, 2_000, 20_000, 100_000):
        lines = [
            f"{number} {'x' * size}" for number in range(max(50, min(5_000, 10_000_000 // size)))
        ]
        points.append({"bytes": size, **_cost(lines, 1)})
    return points


def tasks() -> Sweep:
    """1 to 64 tasks per component, in one process."""
    return [
        {"tasks": number, **_cost(_sentences(8_000, 10), 10, number)} for number in (1, 4, 16, 64)
    ]


def open_trees() -> Sweep:
    """1,000 to 1,000,000 open trees in one acker task.

    Each size runs in a separate process, to measure its memory.
    """
    points: Sweep = []
    for trees in (1_000, 10_000, 100_000, 1_000_000):
        command = [sys.executable, "-m", __name__, str(trees)]
        points.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    return points


def _cost(lines: list[str], words: int, tasks: int = 1) -> dict[str, float]:
    """Return the best of some rounds in µs, per sentence and per one of its 2·words + 1 tuples."""
    found: dict[str, float] = {}
    for batches in (True, False):
        pipe = InProcess(tasks=tasks, batches=batches)
        best = float("inf")
        for _ in range(_ROUNDS):
            began = time.process_time()
            for at in range(0, len(lines), 1000):
                pipe.run(lines[at : at + 1000])
            best = min(best, time.process_time() - began)
        kind = "batches" if batches else "one_by_one"
        found[f"{kind}_us_per_sentence"] = round(best / len(lines) * 1e6, 2)
        found[f"{kind}_us_per_tuple"] = round(best / len(lines) / (2 * words + 1) * 1e6, 3)
    return found


def _sentences(number: int, words: int) -> list[str]:
    chance = random.Random(1)
    return [f"{line} " + " ".join(chance.choices(_WORDS, k=words)) for line in range(number)]


def _open_trees(trees: int) -> dict[str, float]:
    """Measure an acker task with open trees: bytes per tree, µs per row, ms per full checkpoint."""
    ledger = Ledger(CompletionBox(InProcess().topology))
    chance = random.Random(1)
    process = psutil.Process()
    before, offset = process.memory_info().rss, 0
    for _ in range(0, trees, 1000):
        roots = [chance.getrandbits(64) | 1 for _ in range(1000)]
        ledger.apply(
            AckFrame(VERSION, 1, init_roots=pack_ids(roots), init_vals=pack_ids(roots)), offset
        )
        offset += 1
    grown = process.memory_info().rss - before
    known = [root for rows in ledger._buckets for root in rows]
    chance.shuffle(known)
    some = known[:50_000]
    packed, ones = pack_ids(some), pack_ids([1] * len(some))
    best = float("inf")
    for _ in range(6):  # each round's XOR is reverted by the next
        began = time.process_time()
        ledger.apply(AckFrame(VERSION, 0, roots=packed, vals=ones), offset)
        best = min(best, time.process_time() - began)
        offset += 1
    began = time.process_time()
    written = sum(map(len, ledger.checkpoint().values()))
    return {
        "trees": trees,
        "rss_bytes_per_tree": round(grown / trees, 1),
        "us_per_row": round(best / len(some) * 1e6, 3),
        "checkpoint_ms": round((time.process_time() - began) * 1e3, 1),
        "checkpoint_bytes_per_tree": round(written / trees, 2),
    }


def _table(name: str, sweep: Sweep) -> Table:
    table = Table(title=name.replace("_", " "), title_justify="left")
    for column in sweep[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for point in sweep:
        table.add_row(*(f"{value:,.12g}" for value in point.values()))
    return table


def plot_growth(found: dict[str, Sweep], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    lines: list[tuple[Any, str, str, list[str], str]] = [
        (
            panels[0][0],
            "tuples_per_tree",
            "words",
            ["batches_us_per_tuple", "one_by_one_us_per_tuple"],
            "µs a tuple",
        ),
        (
            panels[0][1],
            "message_bytes",
            "bytes",
            ["batches_us_per_tuple", "one_by_one_us_per_tuple"],
            "µs a tuple",
        ),
        (
            panels[1][0],
            "tasks",
            "tasks",
            ["batches_us_per_sentence", "one_by_one_us_per_sentence"],
            "µs a sentence",
        ),
        (
            panels[1][1],
            "open_trees",
            "trees",
            ["rss_bytes_per_tree", "us_per_row"],
            "bytes a tree, µs a row",
        ),
    ]
    for panel, sweep, across, names, unit in lines:
        for name in names:
            panel.plot(
                [p[across] for p in found[sweep]],
                [p[name] for p in found[sweep]],
                marker="o",
                label=name,
            )
        panel.set(
            xscale="log", yscale="log", xlabel=across, ylabel=unit, title=sweep.replace("_", " ")
        )
        panel.grid(visible=True, alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    print(json.dumps(_open_trees(int(sys.argv[1]))))
