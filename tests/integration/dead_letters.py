"""Dead letters on a real Kafka, in the format of engines, with topics as kstorm creates them."""

from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.core.dead_letters import DeadLetter, LetterError, encode_letter, key_of
from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.kafka.replay_requests import ReplayRequest, decode_request
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import read_topic, write_topic
from kstorm.runtime.kafka.topic_settings import topic_plans
from kstorm.topology import TopologyBuilder

SECRET = b"card 4111"


class Letters:
    """The dead letters of a topology, and its topic of events."""

    def __init__(self, kafka: EmbeddedKafka, name: str, **changed: str) -> None:
        self.kafka, self.name = kafka, name
        self.topic = f"{name}.__dead_letters"
        self.settings = Settings(topology="", bootstrap_servers=kafka.bootstrap)
        builder = TopologyBuilder(name)
        builder.set_spout("lines", KafkaSpout(SpoutConfig(KafkaHosts(), "orders", id="lines")))
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        names = [self.topic, f"{name}.__events", f"{name}.__orders"]
        made = {
            topic: plan for topic, plan in topic_plans(builder.build(), 1).items() if topic in names
        }
        new = [
            NewTopic(
                topic, 1, 1, config={**plan.settings, **(changed if topic == self.topic else {})}
            )
            for topic, plan in made.items()
        ]
        for created in self.admin.create_topics(new).values():
            created.result(30)

    def write(self, *letters: DeadLetter) -> None:
        write_topic(
            self.settings,
            self.topic,
            [(key_of(each, "x"), encode_letter(each)) for each in letters],
        )

    def orders(self) -> list[tuple[bytes | None, ReplayRequest]]:
        found = read_topic(self.settings, f"{self.name}.__orders")
        return [(record.key(), decode_request(record.value() or b"")) for record in found]

    def letter(self, offset: int, **changes: Any) -> DeadLetter:
        parts: dict[str, Any] = {
            "topology": self.name,
            "component": "lines",
            "task": 1,
            "reason": "failed, and its retries are used up",
            "topic": "orders",
            "partition": 3,
            "offset": offset,
            "value": SECRET,
            "attempts": 5,
            "at": 1_700_000_000_000 + 1000 * offset,
            "kind": "failed",
            "error": LetterError(
                type="ValueError",
                message=f"no such product {offset}",
                component="price",
                task=2,
                where="price.py:41",
            ),
        }
        return DeadLetter(**{**parts, **changes})

    def strange(self, offset: int, **changes: Any) -> DeadLetter:
        """Return a letter of another group."""
        reason = "cannot be deserialized: \x1b[31mred"
        return self.letter(
            offset, kind="undecodable", reason=reason, error=None, attempts=1, **changes
        )

    def kept(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Return the remaining records of the topic: key and value by offset."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "looks",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        found: dict[int, tuple[bytes | None, bytes | None]] = {}
        try:
            while (message := consumer.poll(10)) is not None and message.error() is None:
                found[message.offset() or 0] = (message.key(), message.value())
        finally:
            consumer.close()
        return found
