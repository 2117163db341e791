"""From a queue to exact totals: payments from RabbitMQ, each counted once.

A queue redelivers a message if it is not sure that the message was processed. It has no position
that could be committed. So `bridge` writes the payments to a Kafka topic at least once, and
`topology` processes this topic exactly once. Messages that the bridge has written twice have the
same id, and the second copy is dropped.
"""

import msgspec

from kstorm.kafka import (
    FieldNameBasedTupleToKafkaMapper,
    KafkaBolt,
    KafkaHosts,
    KafkaSpout,
    RawMultiScheme,
    SpoutConfig,
)
from kstorm.queues import RabbitMQConfig, RabbitMQSpout
from kstorm.topology import (
    EXACTLY_ONCE,
    BasicBolt,
    BasicOutputCollector,
    Config,
    DistinctBolt,
    OutputFieldsDeclarer,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
)


class Payment(msgspec.Struct):
    """A message. `id` is the payer's own and the same for every delivery."""

    id: str
    customer: str
    cents: int


class Read(BasicBolt):
    """Parses the JSON. A message that is not a payment becomes a dead letter after its retries."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(Payment).decode

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("id", "customer", "cents")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        payment = self._decode(tuple[0])
        collector.emit((payment.id, payment.customer, payment.cents))


class Total(StatefulBasicBolt):
    """Sums up the payments of each customer."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Key and message of the sink's record."""
        declarer.declare("key", "message")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        customer, cents = tuple.values
        total = self.state.get(customer, 0) + cents
        self.state.put(customer, total)
        collector.emit((customer, str(total)))


def bridge() -> Topology:
    """Copy the queue to the topic, at least once."""
    builder = TopologyBuilder("payments-bridge")
    builder.set_spout("queue", RabbitMQSpout(RabbitMQConfig("payments", scheme=RawMultiScheme())))
    mapper = FieldNameBasedTupleToKafkaMapper(message_field="bytes")
    write = KafkaBolt().with_topic_selector("payments").with_tuple_to_kafka_mapper(mapper)
    builder.set_bolt("topic", write).shuffle_grouping("queue")
    return builder.build()


def topology() -> Topology:
    """Sum up the topic, exactly once."""
    builder = TopologyBuilder("payments", Config(topology_processing_guarantee=EXACTLY_ONCE))
    builder.set_spout(
        "payments", KafkaSpout(SpoutConfig(KafkaHosts(), "payments", "/kstorm", "payments"))
    )
    builder.set_bolt("read", Read()).shuffle_grouping("payments")
    distinct = DistinctBolt(["customer", "cents"], "id", window=1_000_000)
    builder.set_bolt("distinct", distinct, 2).fields_grouping("read", "id")
    builder.set_bolt("total", Total(), 2).fields_grouping("distinct", "customer")
    builder.set_bolt("sink", KafkaBolt().with_topic_selector("totals")).fields_grouping(
        "total", "key"
    )
    return builder.build()
