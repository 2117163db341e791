"""A group member that confirms the revocation of its tasks and never completes it.

Usage: `python -m … BOOTSTRAP TOPIC INSTANCE`.
"""

import sys
import threading

from confluent_kafka import Consumer, TopicPartition


def hang(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Hang until the process is killed."""
    print("revoking", sorted(place.partition for place in places), flush=True)
    threading.Event().wait()


def main(bootstrap: str, topic: str, instance: str) -> None:
    """Join the group as `TaskConsumer` does."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "group.instance.id": f"{topic}-{instance}",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe(
        [topic], on_revoke=hang, on_assign=lambda _, places: print("has", len(places), flush=True)
    )
    while True:
        consumer.poll(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
