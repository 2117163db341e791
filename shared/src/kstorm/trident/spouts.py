"""Where streams begin: the Kafka spouts of Storm's Trident, which are `KafkaSpout`s here.

config = TridentKafkaConfig(KafkaHosts(), "sentences")
config.scheme = SchemeAsMultiScheme(StringScheme())
stream = topology.new_stream("sentences", OpaqueTridentKafkaSpout(config))
"""

from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final

from kstorm.errors import ConfigError
from kstorm.kafka import BrokerHosts, KafkaSpout, SpoutConfig

ZK_ROOT: Final = "/transactional"
"""Under which ZooKeeper node the positions of streams are, as in Storm."""
_GIVEN: Final = ("hosts", "topic", "zk_root", "id")
_SETTINGS: Final = frozenset(each.name for each in fields(SpoutConfig)) - set(_GIVEN)


class TridentKafkaConfig:
    """What to read and how: the settings of `SpoutConfig`, which may be set afterwards too. Raises `ConfigError` for one that
    there is not."""

    hosts: BrokerHosts
    topic: str
    scheme: Any

    def __init__(
        self, hosts: BrokerHosts, topic: str, client_id: str = "", **settings: Any
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
                else f"there are {', '.join(sorted(_SETTINGS))}"
            )
            raise ConfigError(f"TridentKafkaConfig has no {name!r}: {meant}")
        super().__setattr__(name, value)

    def spout_config(self, topology: str, stream: str) -> SpoutConfig:
        """For the stream of a topology. Raises `ConfigError` on a value out of range."""
        settings = dict(vars(self))
        hosts, topic = settings.pop("hosts"), settings.pop("topic")
        return SpoutConfig(hosts, topic, f"{ZK_ROOT}/{topology}", stream, **settings)


class _TridentKafkaSpout:
    """A spout that is made when the stream's name is known."""

    def __init__(self, config: TridentKafkaConfig) -> None:
        self._config = config

    @property
    def topic(self) -> str:
        """What it reads."""
        return self._config.topic

    def spout(self, topology: str, stream: str) -> KafkaSpout:
        """For the stream of a topology."""
        return KafkaSpout(self._config.spout_config(topology, stream))


class OpaqueTridentKafkaSpout(_TridentKafkaSpout):
    """Each message counts in one batch, and a batch that was not finished may come again with others: kstorm's `KafkaSpout`
    in a topology that is processed exactly once."""


class TransactionalTridentKafkaSpout(_TridentKafkaSpout):
    """The same spout: kstorm's own state needs no batch to come again as it was, since a batch that was not finished has left
    nothing behind."""
