"""The Kafka of a chaos run: one broker, or three of which one may be down."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import LocalError
from tests.integration.further_brokers import SAFE, FurtherBroker

COUNTS: Final = (1, 3)
_TOGETHER_SECS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Brokers:
    """The first broker is also the controller."""

    all: Sequence[EmbeddedKafka]

    @property
    def bootstrap(self) -> str:
        """The clients' `bootstrap.servers`."""
        return ",".join(broker.bootstrap for broker in self.all)

    @property
    def replicas(self) -> int:
        """Replicas of each partition."""
        return len(self.all)

    def pick(self, rng: random.Random) -> EmbeddedKafka:
        return rng.choice(self.all)

    def pick_one_to_lose(self, rng: random.Random) -> EmbeddedKafka:
        """Pick a broker, if possible not the controller: only it can elect new leaders."""
        return rng.choice(self.all[1:] or self.all)


@contextmanager
def open_brokers(directory: Path, count: int, detours: Mapping[str, str]) -> Iterator[Brokers]:
    """Start `count` brokers for the duration of the block. A single one may have `detours`.

    See `EmbeddedKafka`.
    """
    with ExitStack() as stack:
        if count == 1:
            yield Brokers([stack.enter_context(EmbeddedKafka(directory, detours=detours))])
            return
        first = stack.enter_context(EmbeddedKafka(directory, settings=SAFE))
        others = [FurtherBroker(directory, first, number, SAFE) for number in range(2, count + 1)]
        brokers = Brokers([first, *map(stack.enter_context, others)])
        _await_all(brokers)
        yield brokers


def _await_all(brokers: Brokers) -> None:
    """Wait until the brokers know each other: a topic cannot have more replicas than brokers."""
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
    deadline = time.monotonic() + _TOGETHER_SECS
    while len(admin.list_topics(timeout=10).brokers) < len(brokers.all):
        if time.monotonic() > deadline:
            raise LocalError(
                f"{len(brokers.all)} brokers did not find each other within {_TOGETHER_SECS:.0f} s"
            )
        time.sleep(0.1)
