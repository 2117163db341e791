"""Brokers and partitions, by name."""

from typing import Final, NamedTuple

from kstorm.errors import ConfigError


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Broker(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def from_string(cls, address: str) -> "Broker":
        """The broker at `host:port`; raises `ConfigError` if that is none."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"the broker {address!r}: give host:port")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


UNKNOWN_BROKER: Final = Broker("", -1)
"""In place of the leader of a partition that has none at the moment."""
