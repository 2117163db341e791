"""Random topologies: chains, fans, diamonds with joins, collectors that anchor to many trees."""

from collections.abc import Callable, Container, Sequence
from random import Random
from typing import Any, Final

from kstorm.topology import (
    BoltDeclarer,
    Config,
    CustomStreamGrouping,
    Topology,
    TopologyBuilder,
    TopologyContext,
)
from tests.sim.async_components import AsyncTally, SlowBatchRelay, SlowRelay, SlowSource, SlowTally
from tests.sim.components import (
    NO_FAULTS,
    SIDE,
    BatchRelay,
    BoltFaults,
    Collect,
    Join,
    LateRelay,
    Relay,
    Tally,
)
from tests.sim.kafka_source import SourceTopic
from tests.sim.replaying_source import ReplayingSource
from tests.sim.spout_errors import SpoutErrors
from tests.sim.truth import Truth

TIMEOUT = 30.0
TICK_SECS = 10
FOR_EVER: Final = range(1, 2**31)


class Picky(CustomStreamGrouping):
    """Chooses a task by message. For each third message it refuses some of the tuples.

    They are selected by the order in which the grouping is called.
    """

    def __init__(self, truth: Truth, refused: Container[int]) -> None:
        """`refused`: numbers of a message's tuples to refuse, from 1 over all attempts."""
        self._truth, self._refused = truth, refused

    def prepare(
        self, context: TopologyContext, component: str, stream: str, targets: Sequence[int]
    ) -> None:
        self._edge, self._targets = (component, stream, *targets), targets

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        message = values[0]
        if (
            message % 3 == 1
            and self._truth.happens("grouping", self._edge, message) in self._refused
        ):
            raise ValueError("as told")
        return [self._targets[message % len(self._targets)]]


def random_topology(
    random: Random, truth: Truth, source: SourceTopic | None = None, gentle: bool = False
) -> Topology:
    """Return a topology of two to six components. With a `source` its spout is a `KafkaSpout`.

    With `gentle`, all bolts behave, and none waits for a tick.
    """
    config = Config(
        topology_message_timeout_secs=TIMEOUT,
        topology_acker_executors=random.choice((1, 1, 2)) if truth.tracked else 0,
        topology_acker_tasks=random.choice((1, 2, 4)),
        topology_max_spout_pending=random.choice((2, 5, 2000)),
        topology_frame_max_tuples=random.choice((1, 3, 4000)),
    )
    wiring = _ShapeBuilder(TopologyBuilder("sim", config), random, truth, source, gentle)
    shapes: list[Callable[[], None]] = [wiring.chain, wiring.fan]
    if truth.tracked:  # tuples that a join holds are lost in a crash
        shapes.append(wiring.diamond)
    random.choice(shapes if gentle else [*shapes, wiring.collector])()
    return wiring.builder.build()


def diamond_that_fails_every_seventh(truth: Truth, acker_executors: int = 1) -> Topology:
    """One spout, two branches, and a join that holds tuples and anchors to both.

    One branch fails every seventh message once.
    """
    builder = TopologyBuilder("diamond", Config(topology_acker_executors=acker_executors))
    builder.set_spout("source", ReplayingSource(truth))
    builder.set_bolt("left", Relay(truth, faults=BoltFaults(fail_every=7)), 2).shuffle_grouping(
        "source"
    )
    builder.set_bolt("right", Relay(truth), 2).shuffle_grouping("source")
    join = builder.set_bolt("join", Join(truth), 2)
    join.fields_grouping("left", "attempt").fields_grouping("right", "attempt")
    builder.set_bolt("sink", Tally(truth)).fields_grouping("join", "message")
    return builder.build()


_RELAYS = (Relay, Relay, BatchRelay, BatchRelay, SlowRelay, SlowBatchRelay)


class _ShapeBuilder:
    """Shapes, drawn on one builder."""

    def __init__(
        self,
        builder: TopologyBuilder,
        random: Random,
        truth: Truth,
        source: SourceTopic | None,
        gentle: bool,
    ) -> None:
        self.builder, self.random, self.truth, self.source, self.gentle = (
            builder,
            random,
            truth,
            source,
            gentle,
        )
        self.good = gentle or random.random() < 0.3
        """True if all bolts behave."""
        moods = SpoutErrors(random.random() < 0.3, not self.good and random.random() < 0.3)
        own = random.choice((ReplayingSource, ReplayingSource, SlowSource))
        spout = (
            own(truth, random.choice((0, 0, 3)), moods) if source is None else source.spout(moods)
        )
        parallelism, tasks = self._sizes()
        builder.set_spout("source", spout, parallelism).set_num_tasks(tasks)

    def chain(self) -> None:
        """source → relay → … → tally."""
        before = "source"
        for number in range(self.random.randint(1, 3)):
            before = self._relay(f"relay{number}", before)
        self._tally("tally", before)

    def fan(self) -> None:
        """A relay with two streams with separate consumers. One stream has two of them."""
        kind, children = self.random.choice(_RELAYS), self.random.choice((0, 1, 3))
        fan = kind(self.truth, children, side=2, loose=True, faults=self._faults())
        self._any_grouping(self._bolt("fan", fan), "source")
        self._tally("tally", "fan")
        self._relay("relay", "fan", self.random.choice(("default", SIDE)))
        self._any_grouping(self._bolt("end", Relay(self.truth, 0)), "fan", SIDE)

    def diamond(self) -> None:
        """Two branches, and a join anchored to both. Each branch sends it one tuple per attempt."""
        for branch in ("left", "right"):
            kind = self.random.choice(_RELAYS)
            bolt = self._bolt(branch, kind(self.truth, faults=self._faults()))
            if self.random.random() < 0.3:
                bolt.custom_grouping("source", self._picky("source"))
            else:
                bolt.shuffle_grouping("source")
        join = self._bolt("join", Join(self.truth, self._faults()))
        join.fields_grouping("left", "attempt").fields_grouping("right", "attempt")
        self._tally("tally", "join")

    def collector(self) -> None:
        """A bolt that anchors to several messages at once."""
        self._relay("relay", "source")
        collect = self._bolt(
            "collect", Collect(self.truth, self.random.randint(2, 4), self._faults())
        )
        self._any_grouping(collect, "relay").add_configurations(
            topology_tick_tuple_freq_secs=TICK_SECS
        )
        self._relay("end", "collect", children=0)

    def _relay(
        self, name: str, before: str, stream: str = "default", children: int | None = None
    ) -> str:
        some = self.random.choice((1, 1, 2)) if children is None else children
        kind = self.random.choice(_RELAYS if self.gentle else (*_RELAYS, LateRelay))
        relay = kind(self.truth, some, loose=self.random.random() < 0.2, faults=self._faults())
        bolt = self._any_grouping(self._bolt(name, relay), before, stream)
        if kind is LateRelay:
            bolt.add_configurations(topology_tick_tuple_freq_secs=TICK_SECS)
        return name

    def _tally(self, name: str, before: str) -> None:
        kind = self.random.choice((Tally, Tally, AsyncTally, SlowTally))
        self._bolt(name, kind(self.truth, self._faults())).fields_grouping(before, "message")
        if self.random.random() < 0.5:
            self._any_grouping(self._bolt(f"after_{name}", Relay(self.truth, 0)), name)

    def _bolt(self, name: str, bolt: Relay | Join | Collect | Tally) -> BoltDeclarer:
        parallelism, tasks = self._sizes()
        return self.builder.set_bolt(name, bolt, parallelism).set_num_tasks(tasks)

    def _any_grouping(
        self, bolt: BoltDeclarer, before: str, stream: str = "default"
    ) -> BoltDeclarer:
        match self.random.randrange(7):
            case 0:
                return bolt.fields_grouping(before, "message", stream)
            case 1:
                return bolt.partial_key_grouping(before, ["message"], stream)
            case 2:
                return bolt.global_grouping(before, stream)
            case 3:
                return bolt.all_grouping(before, stream)
            # A tuple that a bolt cannot emit fails and is replayed.
            case 4 if before == "source" or not self.good:
                return bolt.custom_grouping(before, self._picky(before), stream)
            case _:
                return bolt.shuffle_grouping(before, stream)

    def _picky(self, before: str) -> Picky:
        refused = [range(1, 2), range(2, 3), range(1, 4)]
        if self.source is not None and (before == "source" or self.source.gives_up):
            refused.append(FOR_EVER)
        return Picky(self.truth, self.random.choice(refused))

    def _sizes(self) -> tuple[int, int]:
        parallelism = self.random.choice((1, 1, 2))
        return parallelism, parallelism + self.random.choice((0, 0, 1))

    def _faults(self) -> BoltFaults:
        if self.good:
            return NO_FAULTS
        fail, error, forget = (self.random.choice((0, 0, 3, 7)) for _ in range(3))
        ever = self.source is not None and self.source.gives_up and self.random.random() < 0.5
        return BoltFaults(fail, error, forget, ever, moody=error == 7)
