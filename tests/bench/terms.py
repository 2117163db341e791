"""What every contestant gets: where Kafka is, what to read, where to write, under which name, and its scratch folder.

The rule: these five variables are all that passes between the benchmark and a contestant. Everything else is read from
the topics, so that a contestant can be any program.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kstorm.errors import ConfigError

PARTITIONS: Final = 12
"""Of the topic of sentences and of the topic of counts."""

PRODUCER: Final[Mapping[str, Any]] = {"acks": "all", "linger.ms": 5, "batch.size": 256 * 1024}
"""How producers of this benchmark are set, in librdkafka's names."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Where one run takes place."""

    bootstrap: str
    """Kafka's bootstrap servers."""
    source: str
    """The topic of sentences: `<id> word word …`, as value, without a key."""
    sink: str
    """The topic of counts: the word as key, `<running count> <id>` as value."""
    run: str
    """A name that no other run has: for the consumer group, the application, and topics of the contestant's own."""
    directory: Path
    """A folder for whatever the contestant keeps."""

    def environment(self) -> dict[str, str]:
        """The same as variables for a contestant's process."""
        return {
            "PEER_BOOTSTRAP": self.bootstrap,
            "PEER_IN": self.source,
            "PEER_OUT": self.sink,
            "PEER_RUN": self.run,
            "PEER_DIR": str(self.directory),
        }


def from_environment(environ: Mapping[str, str] = os.environ) -> Terms:
    """Read the terms in a contestant's process; raises `ConfigError` naming the variables that are missing."""
    names = ("PEER_BOOTSTRAP", "PEER_IN", "PEER_OUT", "PEER_RUN", "PEER_DIR")
    if missing := [name for name in names if not environ.get(name)]:
        raise ConfigError(
            f"{' and '.join(missing)} not set: a contestant is started by `./run bench`, which sets them"
        )
    bootstrap, source, sink, run, directory = (environ[name] for name in names)
    return Terms(bootstrap, source, sink, run, Path(directory))
