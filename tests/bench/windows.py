"""`./run bench windows`: the cost per tuple in windows of any length, and of a million open ones.

Without Kafka. The state is on RocksDB, as in a bolt's process, and changes are written there at
fixed intervals. Each point is measured in a separate process, by its CPU time and its memory above
that at its start.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console
from rich.table import Table

from kstorm.core.exactly_once import UndoableState
from kstorm.core.recovery import LocalCopy
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import make_app
from kstorm.runtime.store.faust_store import FaustStore
from kstorm.testing import FeederSpout
from kstorm.topology import (
    Fields,
    OutputFieldsDeclarer,
    Source,
    TopologyBuilder,
    TopologyContext,
    TupleBatch,
)
from kstorm.trident import Sessions, Sum, Window
from kstorm.trident.step_factories import aggregate_step
from kstorm.trident.windows import window_bolt
from kstorm.windows import Duration, TupleWindow, WindowedBolt
from kstorm.windows.executor import WindowedBoltExecutor

FIELDS: Final = Fields("key", "n", "at")
LENGTHS: Final = (1, 10, 100, 1000)
"""Window lengths, in slides."""
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
"""Numbers of open sums."""
_SLIDE: Final = 1000  # tuples, one per millisecond
_FRAME: Final = 500
_EPOCH: Final = 10  # frames
_MEASURED: Final = 20_000  # tuples

Row = list[Any]
Point = dict[str, float]


class SlidingSum(WindowedBolt):
    """A sliding window's sum from new and expired tuples (Storm's `SlidingWindowSumBolt`)."""

    sum = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("sum")

    def execute(self, window: TupleWindow) -> None:
        self.sum += sum(tuple["n"] for tuple in window.new) - sum(
            tuple["n"] for tuple in window.expired
        )
        self.collector.emit([self.sum])


class DrivenBolt:
    """Drives a windowed bolt with its state on disk, and counts its output."""

    def __init__(self, bolt: WindowedBolt, folder: Path) -> None:
        builder = TopologyBuilder("t")
        builder.set_spout("in", FeederSpout(FIELDS))
        builder.set_bolt("windows", bolt).shuffle_grouping("in")
        topology = builder.build()
        self._source = Source("in", "default", topology.task_ids("in")[0], FIELDS)
        service: Any = None
        self._store = FaustStore(
            make_app("t", Settings(topology="a:b", data_dir=folder), service), "t", 1, folder
        )
        self._store.open(0)
        self._state = UndoableState(
            lambda key: self._store.get(0, key), lambda start: self._store.items(0, start)
        )
        self._bolt = WindowedBoltExecutor(bolt, bolt.window_settings)
        self._bolt.prepare(
            topology.components["windows"].config, TopologyContext(topology, "windows", 0)
        )
        self._bolt.init_state(self._state)
        self._frames = self.emitted = 0
        self.used: dict[str, float] = defaultdict(float)
        """CPU seconds by purpose."""
        self.look()

    def emit(
        self, values: Sequence[Any], stream: str = "default", task: int | None = None
    ) -> Sequence[int]:
        """The collector's method."""
        self.emitted += 1
        return ()

    def take(self, rows: Sequence[Row]) -> None:
        """Execute a frame, and at intervals end an epoch."""
        collector: Any = self
        with self._using("coming"):
            self._state.begin()
            found = self._bolt.execute_batch(
                TupleBatch(self._source, [list(each) for each in zip(*rows, strict=True)]),
                collector,
            )
        assert found is None
        self._frames += 1
        if self._frames % _EPOCH == 0:
            self.commit()

    def look(self) -> None:
        """Advance the watermark, and emit windows."""
        collector: Any = self
        with self._using("shown"):
            self._bolt._watermark.advance(0)
            self._state.begin()
            self._bolt._show(0, collector)

    def commit(self) -> None:
        """Write changes to disk."""
        with self._using("written"):
            changes = self._state.take_changes()
            self._store.write(0, changes, LocalCopy(b"t", self._frames, 0.0))
            self._state.stored()

    @contextmanager
    def _using(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.used[name] += time.process_time() - began


def feed(driven: DrivenBolt, keys: int, first: int, tuples: int) -> None:
    """Feed one tuple per millisecond, keys in turn. Advance the watermark once per second."""
    for begin in range(first, first + tuples, _FRAME):
        driven.take(
            [
                [f"key-{number % keys}", number % 100, number]
                for number in range(begin, begin + _FRAME)
            ]
        )
        if (begin + _FRAME) % _SLIDE == 0:
            driven.look()


def _event_time(window: Any) -> Any:
    return window.with_timestamp_field("at")


def _sums(window: Window) -> WindowedBolt:
    step = aggregate_step(Sum(), Fields("key"), Fields("n"), Fields("sum"), FIELDS)[1]
    return window_bolt(_event_time(window), step, Fields("key", "sum"))


def _measure(bolt: WindowedBolt, keys: int, before: int, folder: Path) -> Point:
    """Return the cost per tuple after `before` tuples, and the memory of all."""
    driven, process = DrivenBolt(bolt, folder), psutil.Process()
    start = process.memory_info().rss
    feed(driven, keys, 0, before)
    shown, began = driven.emitted, time.process_time()
    driven.used.clear()
    feed(driven, keys, before, _MEASURED)
    driven.commit()
    used = time.process_time() - began
    return {
        "us_per_tuple": round(used / _MEASURED * 1e6, 1),
        **{f"us_{name}": round(part / _MEASURED * 1e6, 1) for name, part in driven.used.items()},
        "shown_per_tuple": round((driven.emitted - shown) / _MEASURED, 2),
        "rss_mb": round((process.memory_info().rss - start) / 1e6, 1),
    }


def tuples(length: int, folder: Path) -> Point:
    """A window of tuples that is `length` slides long."""
    window = SlidingSum().with_window(Duration(length * _SLIDE), Duration(_SLIDE))
    return _measure(_event_time(window), 1000, length * _SLIDE, folder)


def sums(length: int, folder: Path) -> Point:
    """Sums of a thousand keys in windows of `length` slides: a thousand times as many are open."""
    window = Window(Duration(length * _SLIDE), Duration(_SLIDE))
    return _measure(_sums(window), 1000, length * _SLIDE, folder)


def sessions(open: int, folder: Path) -> Point:
    """Sums of `open` open sessions."""
    return _measure(_sums(Sessions(Duration(10 * open + 100_000))), open, open, folder)


def closing(open: int, folder: Path, windows: int = 1) -> Point:
    """Sums of `open` keys in one window that ends, or in several that overlap and end in turn."""
    window = Window(Duration(2 * open), Duration(2 * open // windows))
    driven, process = DrivenBolt(_sums(window), folder), psutil.Process()
    start = process.memory_info().rss
    began = time.process_time()
    feed(driven, open, 1, open)
    driven.commit()
    held = process.memory_info().rss - start
    used = time.process_time() - began
    driven.take([["key", 1, 2 * open + number] for number in range(1, _FRAME)])
    began = time.process_time()
    closed = held
    while driven.emitted < windows * open:
        driven.look()
        closed = max(closed, process.memory_info().rss - start)
        driven.commit()
    assert driven.emitted == windows * open
    return {
        "us_per_tuple": round(used / open * 1e6, 1),
        "us_per_sum_shown": round((time.process_time() - began) / driven.emitted * 1e6, 1),
        "rss_mb": round(held / 1e6, 1),
        "rss_mb_as_they_close": round(closed / 1e6, 1),
    }


def overlapping(open: int, folder: Path) -> Point:
    """`closing` with two windows."""
    return closing(open, folder, windows=2)


SWEEPS: Final[dict[str, tuple[str, Sequence[int], Callable[[int, Path], Point]]]] = {
    "tuples": ("slides", LENGTHS, tuples),
    "sums": ("slides", LENGTHS, sums),
    "sessions": ("open", SIZES, sessions),
    "closing": ("open", SIZES, closing),
    "overlapping": ("open", SIZES, overlapping),
}


def measure_windows(console: Console, only: Sequence[str] = ()) -> dict[str, list[Point]]:
    """Return every sweep by name, and print it as it is measured."""
    found: dict[str, list[Point]] = {}
    for name in only or SWEEPS:
        with console.status(f"measuring: {name}"):
            found[name] = list(_points(name))
        console.print(_table(name, found[name]))
    return found


def _points(name: str) -> Iterator[Point]:
    varied, values, _ = SWEEPS[name]
    for value in values:
        command = [sys.executable, "-m", __name__, name, str(value)]
        yield {
            varied: value,
            **json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout),
        }


def _table(name: str, points: Sequence[Point]) -> Table:
    table = Table(title=name, title_justify="left")
    for column in points[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for point in points:
        table.add_row(*(f"{value:,.12g}" for value in point.values()))
    return table


if __name__ == "__main__":
    # The database is still open at the end.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        print(json.dumps(SWEEPS[sys.argv[1]][2](int(sys.argv[2]), Path(folder))), flush=True)
