"""A contestant's parameters: Kafka, the topics to read and write, a name, and a scratch folder.

The rule: the benchmark passes only these five variables to a contestant. Everything else is read
from the topics, so a contestant can be any program.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kstorm.errors import ConfigError

PARTITIONS: Final = 12
"""Partitions of the sentences topic and of the counts topic."""

PRODUCER: Final[Mapping[str, Any]] = {"acks": "all", "linger.ms": 5, "batch.size": 256 * 1024}
"""Settings of this benchmark's producers, in librdkafka's names."""


@dataclass(frozen=True, slots=True)
class RunParameters:
    """The parameters of one run."""

    bootstrap: str
    """Kafka's bootstrap servers."""
    source: str
    """The topic of sentences: `<id> word word …`, as value, without a key."""
    sink: str
    """The topic of counts: the word as key, `<running count> <id>` as value."""
    run: str
    """A unique name: for the consumer group, the application, and the contestant's own topics."""
    directory: Path
    """A folder for the contestant's files."""

    def environment(self) -> dict[str, str]:
        """Return the parameters as environment variables of a contestant's process."""
        return {
            "PEER_BOOTSTRAP": self.bootstrap,
            "PEER_IN": self.source,
            "PEER_OUT": self.sink,
            "PEER_RUN": self.run,
            "PEER_DIR": str(self.directory),
        }


def from_environment(environ: Mapping[str, str] = os.environ) -> RunParameters:
    """Read the parameters in a contestant's process. Raises `ConfigError` if some are missing."""
    names = ("PEER_BOOTSTRAP", "PEER_IN", "PEER_OUT", "PEER_RUN", "PEER_DIR")
    if missing := [name for name in names if not environ.get(name)]:
        raise ConfigError(
            f"{' and '.join(missing)} not set: a contestant is started by `./run bench`, which sets them"
        )
    bootstrap, source, sink, run, directory = (environ[name] for name in names)
    return RunParameters(bootstrap, source, sink, run, Path(directory))
