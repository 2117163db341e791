"""Names of brokers and partitions."""

from typing import Final, NamedTuple

from kstorm.errors import ConfigError
from kstorm.fitting import Text, checked


class Partition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Broker(NamedTuple):
    """A broker's address."""

    host: str
    port: int

    @classmethod
    @checked()
    def from_string(cls, address: Text) -> "Broker":
        """Parse `host:port`. Raises `ConfigError` if it is malformed."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"the broker address {address!r} is invalid: give host:port")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


UNKNOWN_BROKER: Final = Broker("", -1)
"""Stands for the leader of a partition that currently has none."""
