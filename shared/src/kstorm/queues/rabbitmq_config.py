"""The settings of a `RabbitMQSpout`.

hosts = ["rabbit-0", "rabbit-1"]
RabbitMQConfig("sentences", hosts=hosts, username="wordcount", password_file="/secrets/rabbit")
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kstorm.errors import ConfigError
from kstorm.fitting import check_fields, fits
from kstorm.kafka.scheme import (
    MessageMetadataSchemeAsMultiScheme,
    MultiScheme,
    RawMultiScheme,
    check_multi_scheme,
)

_MOST_PREFETCH: Final = 65_535  # AMQP uses 16 bits
_MOST_HEARTBEAT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitMQTls:
    """TLS to RabbitMQ. A host's certificate must match its name in `hosts`.

    Raises `ConfigError` for a value that is not text.
    """

    ca_file: str | None = None
    """PEM file of the trusted authorities. None: the system's."""

    certificate_file: str | None = None
    """PEM file with the client certificate, if RabbitMQ requires one. It may contain the key."""

    key_file: str | None = None
    """PEM file with the key of `certificate_file`, if it is separate."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class RabbitMQConfig:
    """The queue and how to read it. Raises `ConfigError` if a value is out of range."""

    queue: str
    """The queue to read. It must exist, because its declaration is up to the producers."""

    hosts: Sequence[str] = field(default=("localhost",), kw_only=True)
    """Cluster nodes, `host` or `host:port`. If one fails, the next one is used."""

    virtual_host: str = field(default="/", kw_only=True)
    username: str = field(default="guest", kw_only=True)
    password: str = field(default="guest", kw_only=True, repr=False)
    """The user's password. Prefer `password_file`."""

    password_file: str | None = field(default=None, kw_only=True)
    """File that contains only the password and overrides `password`. It is read for every
    connection, so it may change."""

    tls: RabbitMQTls | None = field(default=None, kw_only=True)
    """TLS settings. None: no TLS."""

    scheme: MultiScheme = field(default_factory=RawMultiScheme, kw_only=True)
    """Converts message bodies to tuples. Default: the raw body in the field `bytes`."""

    prefetch_count: int | None = field(default=None, kw_only=True)
    """Maximum open messages of one task, including those received but not emitted yet. At most
    65535. None: `topology_max_spout_pending`."""

    heartbeat_secs: int = field(default=30, kw_only=True)
    """Heartbeat interval in seconds. A connection without a heartbeat for about twice this time is
    closed."""

    connection_timeout_secs: float = field(default=10.0, kw_only=True)
    """Timeout in seconds for establishing a connection, including login."""

    reconnect_initial_delay_ms: int = field(default=500, kw_only=True)
    """Milliseconds to pause after the first round of `hosts`. Each further round doubles it."""

    reconnect_delay_max_ms: int = field(default=30_000, kw_only=True)
    """Maximum pause in milliseconds. A random factor from 0.5 to 1 spreads the reconnects."""

    def __post_init__(self) -> None:
        check_multi_scheme(self.scheme)
        check_fields(self, but=("hosts",))
        if not self.queue:
            raise ConfigError("the RabbitMQ config has no queue: name the queue to read")
        if not fits(self.hosts, Sequence[str]) or not self.hosts:
            raise ConfigError(f"hosts is {self.hosts!r}: it must be a list of at least one host")
        for host in self.hosts:
            _address(host, 0)
        if isinstance(self.scheme, MessageMetadataSchemeAsMultiScheme):
            raise ConfigError(
                "scheme is a MessageMetadataSchemeAsMultiScheme, which needs a message's "
                "partition and offset: a RabbitMQ message has neither, so use a "
                "SchemeAsMultiScheme"
            )
        most = {"prefetch_count": _MOST_PREFETCH, "heartbeat_secs": _MOST_HEARTBEAT}
        for name in (
            "prefetch_count",
            "heartbeat_secs",
            "connection_timeout_secs",
            "reconnect_initial_delay_ms",
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value <= most.get(name, float("inf")):
                upto = f" and at most {most[name]}" if name in most else ""
                raise ConfigError(f"{name} is {value}: it must be above 0{upto}")
        if not self.reconnect_delay_max_ms >= self.reconnect_initial_delay_ms:
            raise ConfigError(
                f"reconnect_delay_max_ms is {self.reconnect_delay_max_ms}: it must be at least "
                f"reconnect_initial_delay_ms, which is {self.reconnect_initial_delay_ms}"
            )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The hosts with their ports. Default port: 5671 with TLS, else 5672."""
        return [_address(host, 5672 if self.tls is None else 5671) for host in self.hosts]

    def prefetch(self, max_spout_pending: int) -> int:
        """Return the maximum of open messages of a task."""
        return self.prefetch_count or min(max_spout_pending, _MOST_PREFETCH)

    def delay(self, failures: int, chance: float) -> float:
        """Return seconds to wait after consecutive failures. `chance` is random, from 0 to 1.

        It is 0 while there is a host that has not been tried since the last pause.
        """
        rounds, within = divmod(failures, len(self.hosts))
        if within or not rounds:
            return 0.0
        longest = self.reconnect_delay_max_ms / 1000
        pause = min(self.reconnect_initial_delay_ms / 1000 * 2.0 ** min(rounds - 1, 60), longest)
        return pause * (1 - chance / 2)


def _address(host: str, default_port: int) -> tuple[str, int]:
    name, colon, port = host.rpartition(":")
    if not colon:
        name, port = host, str(default_port)
    if not name or ":" in name or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise ConfigError(f"the host {host!r} is not of the form host or host:port")
    return name, int(port)
