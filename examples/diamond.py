"""A diamond with a join: orders are priced and checked in parallel, and both results are joined.

        ┌──▶ price ──┐
 orders ┤            ├──▶ join ──▶ sink
        └──▶ check ──┘

The join keeps a tuple until its partner arrives. Then it emits a tuple anchored to both and acks
both: a tuple DAG. If either branch fails, the order is replayed from the source.
"""

import time
from collections import OrderedDict

from kstorm.kafka import (
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    SchemeAsMultiScheme,
    SpoutConfig,
    StringScheme,
)
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    FailedException,
    OutputCollector,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)


class Price(BasicBolt):
    """Prices an order."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The order, the name of the branch, and its answer."""
        declarer.declare("order", "branch", "answer")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Emit the length of the order's text as its price."""
        order = tuple[0]
        collector.emit((order, "price", len(order)))


class Check(BasicBolt):
    """Checks an order. The checker is unavailable for every seventh order at the first attempt."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._asked: set[str] = set()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("order", "branch", "answer")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Fail every seventh order once. It is then replayed and checked."""
        order = tuple[0]
        if int(order.rsplit("-", 1)[1]) % 7 == 0 and order not in self._asked:
            self._asked.add(order)
            raise FailedException(f"the checker is away for {order}")
        collector.emit((order, "check", True))


class Join(Bolt):
    """Joins the two answers of one order.

    Both halves of one attempt have the same tuple tree root, and halves of different attempts do
    not. So a half whose partner failed is never joined to one of the replay. It is failed on a
    tick.
    """

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(config, context, collector)
        self._waiting: OrderedDict[int, tuple[float, Tuple]] = OrderedDict()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the sink's record."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple) -> None:
        """Keep the first half, and emit when the second arrives."""
        if tuple.is_tick:
            self._give_up(time.monotonic() - self.config.topology_message_timeout_secs)
            return
        _since, other = self._waiting.pop(tuple.root, (0.0, None))
        # A second tuple of the same branch means that the branch was executed again.
        if other is not None and other["branch"] == tuple["branch"]:
            self.collector.ack(other)
            other = None
        if other is None:
            self._waiting[tuple.root] = (time.monotonic(), tuple)
            return
        answers = {other["branch"]: other["answer"], tuple["branch"]: tuple["answer"]}
        self.collector.emit(
            (tuple["order"], {"order": tuple["order"], **answers}), anchors=[other, tuple]
        )
        self.collector.ack(other)
        self.collector.ack(tuple)

    def _give_up(self, before: float) -> None:
        """Fail halves that have waited longer than the message timeout. They were replayed."""
        while self._waiting:
            root, (since, half) = next(iter(self._waiting.items()))
            if since > before:
                return
            del self._waiting[root]
            self.collector.fail(half)


def build(
    name: str = "diamond",
    source: str = "orders",
    sink: str = "answers",
    config: Config | None = None,
    executors: int = 1,
) -> Topology:
    """Wire the diamond. `executors` is the number of processes of each component."""
    builder = TopologyBuilder(name, config)
    spout = KafkaSpout(
        SpoutConfig(
            KafkaHosts(), source, "/kstorm", name, scheme=SchemeAsMultiScheme(StringScheme())
        )
    )
    builder.set_spout("orders", spout, executors).set_num_tasks(2)
    builder.set_bolt("price", Price(), executors).set_num_tasks(2).shuffle_grouping("orders")
    builder.set_bolt("check", Check(), executors).set_num_tasks(2).fields_grouping("orders", "str")
    join = (
        builder.set_bolt("join", Join(), executors)
        .set_num_tasks(2)
        .add_configurations(topology_tick_tuple_freq_secs=1.0)
    )
    join.fields_grouping("price", "order").fields_grouping("check", "order")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector(sink), executors).set_num_tasks(
        2
    ).shuffle_grouping("join")
    return builder.build()


def topology() -> Topology:
    """Return the topology for a service: `KSTORM_TOPOLOGY=examples.diamond:topology`."""
    return build()
