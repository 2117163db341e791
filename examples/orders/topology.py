"""Orders: what each customer has bought, to the cent.

                  ┌─priced─────────────────────┐
    orders ──▶ check                           ├──▶ join ──▶ total ──▶ sink (topic)
                  └─buyers─▶ tax (of a country)┘

An order is JSON. Amounts are decimals written as text. The buyer's country and the coupon may be
null:

    {"id": "o-17", "customer": {"name": "Ann", "country": "DE"}, "coupon": null,
     "items": [{"name": "tea", "price": "3.20", "count": 2}]}

Orders are processed exactly once. Each is in its customer's total once and has one record in the
sink topic, whatever dies. An order that can never be processed becomes a dead letter. The register
of tax rates is sometimes unavailable at first. The order then waits in the join until the register
responds.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from kstorm.kafka import (
    JsonScheme,
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    MessageMetadataSchemeAsMultiScheme,
    SpoutConfig,
)
from kstorm.topology import (
    EXACTLY_ONCE,
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Config,
    FailedException,
    OutputCollector,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

TAX: Final[Mapping[str | None, Decimal]] = {
    "DE": Decimal("0.19"),
    "FR": Decimal("0.20"),
    "NO": Decimal("0.25"),
    None: Decimal(0),
}
"""Tax rates by country. A buyer without a country pays none."""
_PLACE: Final = ("partition", "offset")
"""The order's position in the source topic. The sink writes it as lineage."""
_CENT: Final = Decimal("0.01")


class Check(BasicBolt):
    """Parses an order. An unreadable order fails at every attempt and becomes a dead letter."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The net price and the buyer."""
        declarer.declare_stream("priced", ("id", "net", *_PLACE))
        declarer.declare_stream("buyers", ("id", "customer", "country", *_PLACE))

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        """Raise `ValueError` without items, a decimal price or a known tax rate."""
        id, customer, items, coupon, partition, offset = tuple.values
        if not items:
            raise ValueError(f"order {id!r} has no items: an order needs at least one")
        if customer["country"] not in TAX:
            raise ValueError(
                f"order {id!r} is from {customer['country']!r}, whose rate is not known: add it to TAX"
            )
        net = sum((_decimal(item["price"]) * item["count"] for item in items), Decimal(0))
        if coupon is not None:
            net -= min(net, _decimal(coupon["off"]))
        collector.emit((id, str(net), partition, offset), "priced")
        collector.emit((id, customer["name"], customer["country"], partition, offset), "buyers")


class Tax(BasicBolt):
    """Looks up the tax rate of a buyer's country.

    The register is unavailable for every tenth order of a partition at the first attempt.
    """

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._asked: set[tuple[int, int]] = set()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "customer", "rate", *_PLACE)

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        id, customer, country, partition, offset = tuple.values
        if offset % 10 == 0 and (partition, offset) not in self._asked:
            self._asked.add((partition, offset))
            raise FailedException(f"the register is away for {id}")
        self._asked.discard((partition, offset))
        collector.emit((id, customer, str(TAX[country]), partition, offset))


class Join(Bolt):
    """Joins price and rate of an order.

    Both halves of one attempt at an order have the same tuple tree root, and halves of different
    attempts do not. A half that has waited longer than the message timeout is failed on a tick.
    With at-least-once processing it was replayed by then. With exactly-once processing this bolt
    retries it.
    """

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(config, context, collector)
        self._waiting: OrderedDict[int, tuple[float, Tuple]] = OrderedDict()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """An order with its total price."""
        declarer.declare("id", "customer", "amount", *_PLACE)

    def execute(self, tuple: Tuple) -> None:
        """Keep the first half.

        When the second arrives, emit the order anchored to both, and ack both.
        """
        if tuple.is_tick:
            self._give_up(time.monotonic() - self.config.topology_message_timeout_secs)
            return
        _since, other = self._waiting.pop(tuple.root, (0.0, None))
        # A second tuple of the same component means that this half was computed again.
        if other is not None and other.source_component == tuple.source_component:
            self.collector.ack(other)
            other = None
        if other is None:
            self._waiting[tuple.root] = (time.monotonic(), tuple)
            return
        price, buyer = (tuple, other) if tuple.source_component == "check" else (other, tuple)
        amount = (Decimal(price["net"]) * (1 + Decimal(buyer["rate"]))).quantize(_CENT)
        place = (buyer["partition"], buyer["offset"])
        self.collector.emit(
            (buyer["id"], buyer["customer"], str(amount), *place), anchors=[price, buyer]
        )
        self.collector.ack(price)
        self.collector.ack(buyer)

    def _give_up(self, before: float) -> None:
        while self._waiting:
            root, (since, half) = next(iter(self._waiting.items()))
            if since > before:
                return
            del self._waiting[root]
            self.collector.fail(half)


class Total(StatefulBasicBolt):
    """Sums up what each customer has bought. The totals survive the process."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the sink's record, and its lineage."""
        declarer.declare("key", "message", *_PLACE, "part")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        id, customer, amount, partition, offset = tuple.values
        orders, total = self.state.get(customer, (0, "0"))
        orders, total = orders + 1, str(Decimal(total) + Decimal(amount))
        self.state.put(customer, (orders, total))
        record = {
            "id": id,
            "customer": customer,
            "amount": amount,
            "orders": orders,
            "total": total,
        }
        collector.emit((customer, msgspec.json.encode(record), partition, offset, "order"))


def _decimal(text: Any) -> Decimal:
    """Parse a decimal written as text.

    Raises `ValueError` otherwise: binary fractions are not exact.
    """
    try:
        found = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        found = None
    if found is None or not found.is_finite():
        raise ValueError(f"{text!r} is no decimal: write it as text, such as '3.20'")
    return found


def build(
    name: str = "orders",
    source: str = "orders",
    sink: str = "order-totals",
    config: Config | None = None,
) -> Topology:
    """Wire the topology, with one process of each component."""
    builder = TopologyBuilder(name, config)
    scheme = MessageMetadataSchemeAsMultiScheme(JsonScheme("id", "customer", "items", "coupon"))
    spout = KafkaSpout(
        SpoutConfig(
            KafkaHosts(),
            source,
            "/kstorm",
            name,
            scheme=scheme,
            retry_initial_delay_ms=500,
            retry_delay_multiplier=2.0,
            retry_delay_max_ms=5_000,
            retry_limit=10,
        )
    )
    builder.set_spout("orders", spout).set_num_tasks(2)
    builder.set_bolt("check", Check()).set_num_tasks(4).shuffle_grouping("orders")
    tax = builder.set_bolt("tax", Tax()).set_num_tasks(2).fields_grouping("check", "id", "buyers")
    tax.add_configurations(topology_bolt_retry_initial_delay_ms=1000.0)
    join = (
        builder.set_bolt("join", Join())
        .set_num_tasks(4)
        .add_configurations(topology_tick_tuple_freq_secs=1.0)
    )
    join.fields_grouping("check", "id", "priced").fields_grouping("tax", "id")
    builder.set_bolt("total", Total()).set_num_tasks(4).fields_grouping("join", "customer")
    write = KafkaBolt().with_topic_selector(sink).with_lineage(source)
    builder.set_bolt("sink", write).set_num_tasks(2).fields_grouping("total", "key")
    return builder.build()


def orders_config(guarantee: str = EXACTLY_ONCE) -> Config:
    """Retry failed tuples ten times, at most a second apart.

    The register's memory of attempts is lost with its process, so it may be unavailable again.
    """
    return Config(
        topology_processing_guarantee=guarantee,
        topology_bolt_retry_limit=10,
        topology_bolt_retry_delay_max_ms=1000.0,
    )


def topology() -> Topology:
    """Return the topology for a service: `KSTORM_TOPOLOGY=examples.orders.topology:topology`."""
    return build(config=orders_config())
