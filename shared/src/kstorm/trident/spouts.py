"""The Kafka spouts of Storm's Trident. Here they are `KafkaSpout`s.

config = TridentKafkaConfig(KafkaHosts(), "sentences")
config.scheme = SchemeAsMultiScheme(StringScheme())
stream = topology.new_stream("sentences", OpaqueTridentKafkaSpout(config))
"""

from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final

from kstorm.errors import ConfigError
from kstorm.fitting import Text, checked
from kstorm.kafka import BrokerHosts, KafkaSpout, SpoutConfig

ZK_ROOT: Final = "/transactional"
"""ZooKeeper node of the streams' offsets, as in Storm."""
_GIVEN: Final = ("hosts", "topic", "zk_root", "id")
_SETTINGS: Final = frozenset(each.name for each in fields(SpoutConfig)) - set(_GIVEN)


class TridentKafkaConfig:
    """The topic to read, and the settings of `SpoutConfig`, which can also be set as attributes
    later.

    Raises `ConfigError` for unknown settings.
    """

    hosts: BrokerHosts
    topic: str
    scheme: Any

    @checked()
    def __init__(
        self, hosts: BrokerHosts, topic: Text, client_id: str = "", **settings: Any
    ) -> None:
        self.hosts, self.topic = hosts, topic
        for name, value in {"client_id": client_id, **settings}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _SETTINGS and name not in ("hosts", "topic"):
            close = get_close_matches(name, _SETTINGS, 1)
            meant = (
                f"did you mean {close[0]!r}?"
                if close
                else f"its settings are {', '.join(sorted(_SETTINGS))}"
            )
            raise ConfigError(f"TridentKafkaConfig has no {name!r}: {meant}")
        super().__setattr__(name, value)

    def spout_config(self, topology: str, stream: str) -> SpoutConfig:
        """Return the spout's configuration for a stream. Raises `ConfigError` for values out of
        range."""
        settings = dict(vars(self))
        hosts, topic = settings.pop("hosts"), settings.pop("topic")
        return SpoutConfig(hosts, topic, f"{ZK_ROOT}/{topology}", stream, **settings)


class _TridentKafkaSpout:
    """A spout that is created once the stream's name is known."""

    @checked()
    def __init__(self, config: TridentKafkaConfig) -> None:
        self._config = config

    @property
    def topic(self) -> str:
        return self._config.topic

    def spout(self, topology: str, stream: str) -> KafkaSpout:
        """Return the spout for a stream of a topology."""
        return KafkaSpout(self._config.spout_config(topology, stream))


class OpaqueTridentKafkaSpout(_TridentKafkaSpout):
    """Reads each message in exactly one committed batch. An unfinished batch may be repeated with
    other messages.

    This is kstorm's `KafkaSpout` with exactly-once processing.
    """


class TransactionalTridentKafkaSpout(_TridentKafkaSpout):
    """The same spout as `OpaqueTridentKafkaSpout`.

    kstorm's own state does not need identical batches on a repetition, because an unfinished batch
    leaves no changes behind.
    """
