"""Event time among faults: a tuple that is in time is never late, and windows close.

A KafkaSpout reads partitions, some of them long before others. Perhaps a bolt between holds tuples
and raises. A windowed bolt follows, perhaps another one behind it. Each partition's messages are at
most `DISORDER` ms out of order, and the windows allow `LAG` ms. So:

- No tuple is late.
- In the end, every window that ends before the lowest of the partitions' watermarks was shown, with
  all of its tuples.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from kstorm.errors import KstormError
from kstorm.kafka import JsonScheme, KafkaHosts, KafkaSpout, SchemeAsMultiScheme, SpoutConfig
from kstorm.testing import LocalCluster
from kstorm.testing.kafka import FakeKafka
from kstorm.testing.world import discard_narration
from kstorm.topology import (
    Bolt,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    Tuple,
)
from kstorm.topology.config import AT_LEAST_ONCE, EXACTLY_ONCE
from kstorm.topology.context import CLOCK
from kstorm.windows import Duration, TupleWindow, WindowedBolt
from tests.sim.exactly_once.components import RandomErrors
from tests.sim.exactly_once.world import expect, strike
from tests.sim.schedule import ScheduleReport, ViolationError

_TOPIC = "events"
_PARTITIONS = 3
_MESSAGES = 40
_FAULTS = 50
_ROUNDS = 60  # seconds of calm, at most
LAG = 10_000
DISORDER = 8000
_STEP = 2000  # from one message of a partition to the next, in ms
_LENGTH = 5000
_IDLE = 4000
_LONG_IDLE = 1_000_000  # no partition is idle for so long, whatever the clock does

Log = list[int]
"""The times of a partition's messages."""


class Hold(Bolt):
    """Emits its tuples in pairs, and on ticks. May raise before and after."""

    def __init__(self, trouble: RandomErrors) -> None:
        self._trouble = trouble
        self._held: list[Tuple] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("n", "at")

    def get_component_configuration(self) -> dict[str, Any]:
        return {"topology_tick_tuple_freq_secs": 1.0}

    def execute(self, tuple: Tuple) -> None:
        if not tuple.is_tick:
            self._trouble.maybe()
            self._held.append(tuple)
            if len(self._held) < 2:
                return
        held, self._held = self._held, []
        for one in held:
            self.collector.emit(list(one.values), anchors=one)
            self.collector.ack(one)


class Numbers(WindowedBolt):
    """Emits a window's end and its numbers."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("n", "at")

    def execute(self, window: TupleWindow) -> None:
        self.collector.emit([[tuple["n"] for tuple in window], window.end_timestamp])


class Schedule:
    """The choices of a seed."""

    def __init__(self, random: Random) -> None:
        self.guarantee = random.choice((AT_LEAST_ONCE, EXACTLY_ONCE))
        self.between = random.random() < 0.4
        self.chain = random.random() < 0.4
        self.session = random.random() < 0.3
        self.idle_ms = random.choice((None, None, _IDLE, _LONG_IDLE))
        """Idle partitions are not waited for after this time."""
        self.idle = self.idle_ms == _IDLE
        """One partition stays empty, and no messages are written later."""
        self.tasks = random.choice((1, 2))
        self.trouble = RandomErrors(Random(random.random()), random.choice((0.0, 0.1)))
        self.checkpoint_ms = Config().topology_state_checkpoint_interval_ms
        self.spare = False
        """True if the spout has tasks without partitions, in processes of their own."""

    def narrow(self) -> None:
        """Let windows follow windows, of which the first die between two checkpoints."""
        self.guarantee, self.chain, self.idle, self.session = AT_LEAST_ONCE, True, False, False
        self.checkpoint_ms = 4000

    def topology(self, random: Random) -> Topology:
        """Return the topology with these choices."""
        config = Config(
            topology_processing_guarantee=self.guarantee,
            topology_message_timeout_secs=6,
            topology_acker_tasks=2,
            topology_state_checkpoint_interval_ms=self.checkpoint_ms,
            topology_bolt_retry_limit=1000,
            topology_bolt_retry_initial_delay_ms=500,
            topology_frame_max_tuples=random.choice((1, 3, 4000)),
        )
        source = SpoutConfig(
            KafkaHosts(),
            _TOPIC,
            "/spouts",
            "simulated",
            scheme=SchemeAsMultiScheme(JsonScheme("n", "at")),
            state_update_interval_ms=random.choice((100, 1000)),
            max_uncommitted_offsets=random.choice((3, 200_000)),
            event_time="at" if self.between else None,
            event_time_idle_ms=self.idle_ms if self.between else None,
        )
        builder = TopologyBuilder("time", config)
        processes, tasks = random.choice((1, 2)), 2
        if self.spare:
            processes = tasks = _PARTITIONS + 2
        builder.set_spout("spout", KafkaSpout(source), processes).set_num_tasks(tasks)
        before = "spout"
        if self.between:
            hold = builder.set_bolt("hold", Hold(self.trouble), self.tasks).set_num_tasks(2)
            hold.shuffle_grouping("spout")
            before = "hold"
        first = self._windows(Numbers(), self.session).with_lag(Duration(LAG))
        if self.idle_ms and not self.between:
            first.with_idle_timeout(Duration(self.idle_ms))
        bolt = builder.set_bolt("windows", first, self.tasks).set_num_tasks(2)
        bolt.fields_grouping(before, Fields("n"))
        if self.chain:
            second = self._windows(Numbers(), False)
            again = builder.set_bolt("again", second, self.tasks).set_num_tasks(2)
            again.shuffle_grouping("windows")
        return builder.build()

    @staticmethod
    def _windows(bolt: WindowedBolt, session: bool) -> WindowedBolt:
        windowed = (
            bolt.with_session_window(Duration(_LENGTH), ())
            if session
            else bolt.with_tumbling_window(Duration(_LENGTH))
        )
        return windowed.with_timestamp_field("at").with_late_tuple_stream("late")


def explore_chain(seed: int) -> ScheduleReport:
    """Run a schedule in which the first of two windowed bolts dies between two checkpoints."""
    return explore_event_time(seed, narrow=True)


def explore_event_time(
    seed: int, tell: Callable[[str], None] = discard_narration, narrow: bool = False
) -> ScheduleReport:
    """Run the schedule of a seed. Raises `ViolationError`."""
    report = ScheduleReport(seed, _MESSAGES, steps=_FAULTS)
    random = Random(f"time {seed}")
    schedule = Schedule(random)
    schedule.spare = seed % 7 == 1
    if narrow:
        schedule.narrow()
    topology, kafka = schedule.topology(random), FakeKafka({_TOPIC: _PARTITIONS})
    feed = _Feed(kafka, random, schedule)
    jumps = [0.0]
    clusters: list[LocalCluster] = []

    def clock() -> float:
        return jumps[0] + (clusters[0].now if clusters else 0.0)

    with kafka.cluster(topology, seed, {CLOCK: clock}, tell=tell) as cluster:
        clusters.append(cluster)
        try:
            report.faults = (
                _among_kills(cluster, feed, random)
                if narrow
                else _among_faults(cluster, kafka, feed, jumps, random)
            )
            feed.rest()
            kafka.away = False
            _in_calm(cluster, feed, schedule)
            _reckon(cluster, feed, schedule)
        except (ViolationError, KstormError) as error:
            raise ViolationError(f"seed {seed}: {error}") from None
        report.seen, report.seconds = cluster.seen, cluster.now
    return report


class _Feed:
    """Writes the messages, of which a part is there from the beginning."""

    def __init__(self, kafka: FakeKafka, random: Random, schedule: Schedule) -> None:
        self._kafka = kafka
        self.logs: list[Log] = [[] for _ in range(_PARTITIONS)]
        self.at: dict[int, int] = {}
        """The time of each message."""
        used = range(_PARTITIONS - 1 if schedule.idle else _PARTITIONS)
        starts = [random.choice((0, 0, 30_000)) for _ in range(_PARTITIONS)]
        places = [random.choice(used) for _ in range(_MESSAGES - len(used))] + list(used)
        self._left: list[tuple[int, int]] = []
        counts = Counter[int]()
        for place in places:
            counts[place] += 1
            base = starts[place] + counts[place] * _STEP + 100_000
            self._left.append((place, base - random.randint(0, DISORDER)))
        # Messages that end an idle time may be late, so none follow.
        self._write(_MESSAGES if schedule.idle else random.randint(0, _MESSAGES))

    def more(self) -> None:
        """Write one more message."""
        self._write(1)

    def rest(self) -> None:
        """Write all others."""
        self._write(len(self._left))

    def _write(self, count: int) -> None:
        some, self._left = self._left[:count], self._left[count:]
        for place, at in some:
            number = len(self.at)
            self.at[number] = at
            self.logs[place].append(at)
            value = json.dumps({"n": number, "at": at})
            self._kafka.produce(_TOPIC, value, partition=place)

    @property
    def watermark(self) -> int:
        """The watermark that the windowed bolt must reach."""
        return min(max(log) for log in self.logs if log) - LAG


def _among_faults(
    cluster: LocalCluster, kafka: FakeKafka, feed: _Feed, jumps: list[float], random: Random
) -> Counter[str]:
    struck: Counter[str] = Counter()
    names = ["spout", *cluster.topology.components, "acker"]
    for _ in range(_FAULTS):
        for _ in range(random.randint(1, 25)):
            cluster.step()
        match random.randrange(20):
            case 0:
                jumps[0] += random.choice((3600, -2))
                struck["clock jumps"] += 1
            case 6 | 7 | 8:
                cluster.advance_time(random.random() * 2, run=False)
            case 1 | 2 | 3 | 4:
                feed.more()
            case 5:
                kafka.away = not kafka.away
            case _:
                struck[strike(cluster, random.choice(names), random)] += 1
    return struck


def _among_kills(cluster: LocalCluster, feed: _Feed, random: Random) -> Counter[str]:
    struck: Counter[str] = Counter()
    for _ in range(_FAULTS):
        feed.more()
        cluster.advance_time(random.random(), run=False)
        for _ in range(random.randint(1, 60)):
            cluster.step()
        if random.random() < 0.3:
            cluster.crash("windows", random.randrange(cluster.executors("windows")))
            struck["kill"] += 1
    return struck


def _in_calm(cluster: LocalCluster, feed: _Feed, schedule: Schedule) -> None:
    cluster.disturb()
    cluster.heal()
    cluster.bury()
    for _ in range(_ROUNDS):
        cluster.advance_time(1.0)
        if not _missing(cluster, feed, schedule):
            break


def _missing(cluster: LocalCluster, feed: _Feed, schedule: Schedule) -> Sequence[int]:
    """Return the messages whose window should have been shown by the first windowed bolt."""
    shown = {number for numbers, _ in cluster.emitted("windows") for number in numbers}
    bound = feed.watermark
    if schedule.session:
        return ()  # a session may last until the end
    return [
        number
        for number, at in feed.at.items()
        if number not in shown and -(-at // _LENGTH) * _LENGTH <= bound
    ]


def _reckon(cluster: LocalCluster, feed: _Feed, schedule: Schedule) -> None:
    for name in ("windows", "again") if schedule.chain else ("windows",):
        late = [found["values"] for (found,) in cluster.emitted(name, "late")]
        expect(not late, f"late in {name!r} are {late[:3]}")
    missing = _missing(cluster, feed, schedule)
    expect(not missing, f"the windows of {missing[:5]} are open below {feed.watermark}")
