"""The topic of `kstorm produce`, `consume` and `probe`."""

from typing import Annotated

import typer

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.broker_reachability import check_reachable

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)
]


def num_partitions(settings: Settings, topic: str) -> int:
    """Return a topic's partition count.

    Raises `BrokerError` if the topic does not exist or no broker responds.
    """
    check_reachable(settings)
    found = Admin(settings).partition_counts().get(topic)
    if not found:
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers!r} has no topic {topic!r}: create it, or give "
            "another topic"
        )
    return found
