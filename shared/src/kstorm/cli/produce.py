"""`kstorm produce TOPIC`: send each nonempty line of its input as a message.

echo 'the cow jumped over the moon' | kstorm produce sentences
"""

import sys
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaException, Message, Producer

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.kafka_options import Topic, num_partitions
from kstorm.cli.place_options import Bootstrap, settings_for
from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings

_FLUSH_SECS: Final = 30.0
_MOST_WAITING: Final = 10_000


def produce(topic: Topic, json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Send each line of standard input to a topic as a message."""
    settings = settings_for(bootstrap)
    num_partitions(settings, topic)
    sent = _send(settings, topic, sys.stdin.buffer)
    if json:
        print_json({"topic": topic, "sent": sent})


def _send(settings: Settings, topic: str, lines: Iterable[bytes]) -> int:
    """Return the number of sent messages."""
    sent = 0
    refused: list[str] = []
    producer = Producer({**settings.client_config, "enable.idempotence": True})

    def delivered(error: object | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    try:
        for line in filter(None, map(bytes.strip, lines)):
            while len(producer) > _MOST_WAITING:
                producer.poll(0.05)
            producer.produce(topic, line, on_delivery=delivered)
            producer.poll(0)
            sent += 1
    except KafkaException as error:
        refused.append(error.args[0].str())
    if producer.flush(_FLUSH_SECS) or refused:
        told = refused[0] if refused else "no answer"
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers!r} did not accept all messages: {told}"
        )
    return sent
