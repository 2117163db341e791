"""Options and checks shared by `kstorm produce`, `consume` and `probe`."""

import os
from typing import Annotated

import typer

from kstorm.errors import BrokerError
from kstorm.runtime.base.settings import Settings, with_or_without_topology
from kstorm.runtime.kafka.admin import Admin

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Kafka's address. Default: KSTORM_BOOTSTRAP_SERVERS.",
    ),
]


def settings_for(bootstrap: str | None) -> Settings:
    """Return the environment's settings and credentials, with the Kafka at `bootstrap` if it is
    given.
    """
    return with_or_without_topology(
        os.environ | ({} if bootstrap is None else {"KSTORM_BOOTSTRAP_SERVERS": bootstrap})
    )


def num_partitions(settings: Settings, topic: str) -> int:
    """Return a topic's partition count.

    Raises `BrokerError` if the topic does not exist or no broker responds.
    """
    found = Admin(settings).partition_counts().get(topic)
    if not found:
        raise BrokerError(
            f"Kafka at {settings.bootstrap_servers!r} has no topic {topic!r}: create it, or give "
            "another topic"
        )
    return found
