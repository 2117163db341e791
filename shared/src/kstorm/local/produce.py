"""`python -m kstorm.local.produce BOOTSTRAP TOPIC`: each line of its input becomes a message; empty lines do not."""

import argparse
import sys
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaException, Message, Producer

from kstorm.errors import BrokerError
from kstorm.local.cli import run_command
from kstorm.local.topics import topic_names
from kstorm.runtime.settings import Settings

_FLUSH_SECS: Final = 30.0
_MOST_WAITING: Final = 10_000


def main() -> int:
    """Produce standard input; return the exit code: 0 when all has arrived, 2 if it cannot."""
    parser = argparse.ArgumentParser(prog="python -m kstorm.local.produce", description=__doc__)
    parser.add_argument("bootstrap", metavar="HOST:PORT")
    parser.add_argument("topic")
    arguments = parser.parse_args()
    return run_command("kstorm produce", lambda: produce(arguments.bootstrap, arguments.topic, sys.stdin))


def produce(bootstrap: str, topic: str, lines: Iterable[str]) -> int:
    """Produce the lines; raises `BrokerError` if Kafka or the topic is not there, or does not take them."""
    settings = Settings(topology="", bootstrap_servers=bootstrap)
    if topic not in topic_names(settings):
        raise BrokerError(f"Kafka at {bootstrap} has no topic {topic!r}: create it first")
    refused: list[str] = []
    producer = Producer({**settings.client_config, "enable.idempotence": True})

    def delivered(error: object | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    try:
        for text in filter(None, map(str.strip, lines)):
            while len(producer) > _MOST_WAITING:
                producer.poll(0.05)
            producer.produce(topic, text.encode(), on_delivery=delivered)
            producer.poll(0)
    except KafkaException as error:
        refused.append(error.args[0].str())
    if producer.flush(_FLUSH_SECS) or refused:
        raise BrokerError(f"Kafka at {bootstrap} did not take all messages: {refused[0] if refused else 'no answer'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
