"""The settings of a `RabbitMQSpout`.

RabbitMQConfig("sentences", hosts=["rabbit-0", "rabbit-1"], username="wordcount", password_file="/secrets/rabbit")
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kstorm.errors import ConfigError
from kstorm.kafka.scheme import (
    MessageMetadataSchemeAsMultiScheme,
    MultiScheme,
    RawMultiScheme,
    check_multi_scheme,
)

_MOST_PREFETCH: Final = 65_535  # AMQP has 16 bits for it
_MOST_HEARTBEAT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitMQTls:
    """TLS towards RabbitMQ. The certificate of a host must be valid for the name that it is called by in `hosts`."""

    ca_file: str | None = None
    """PEM file of the authorities to trust; None: those that the system trusts."""

    certificate_file: str | None = None
    """PEM file with the client's own certificate, where RabbitMQ asks for one; its key may be in it."""

    key_file: str | None = None
    """PEM file with the key of `certificate_file`, if it is not in that."""


@dataclass(frozen=True, slots=True)
class RabbitMQConfig:
    """What to read and how. Raises `ConfigError` on a value out of range."""

    queue: str
    """The queue to read. It has to be there: how it is made is for those who write to it to say."""

    hosts: Sequence[str] = field(default=("localhost",), kw_only=True)
    """Nodes of the cluster, `host` or `host:port`; one is used at a time, the next one when it fails."""

    virtual_host: str = field(default="/", kw_only=True)
    """The virtual host that the queue is in."""

    username: str = field(default="guest", kw_only=True)
    """The user to log in as."""

    password: str = field(default="guest", kw_only=True, repr=False)
    """The user's password; better, name a file."""

    password_file: str | None = field(default=None, kw_only=True)
    """File with the password alone, in place of `password`; read for every connection, so that it may be changed."""

    tls: RabbitMQTls | None = field(default=None, kw_only=True)
    """TLS, if RabbitMQ listens with it; None: without."""

    scheme: MultiScheme = field(default_factory=RawMultiScheme, kw_only=True)
    """Makes tuples of messages' bodies; the default gives the body as it is, in the field `bytes`."""

    prefetch_count: int | None = field(default=None, kw_only=True)
    """Most messages of one task that are open at once, those included that have come and are not emitted yet. None: as
    many as the task may have in flight, `topology_max_spout_pending`. At most 65535."""

    heartbeat_secs: int = field(default=30, kw_only=True)
    """Seconds between signs of life; a connection without one for about twice as long is given up."""

    connection_timeout_secs: float = field(default=10.0, kw_only=True)
    """Seconds within which a connection must have come about, login included."""

    reconnect_initial_delay_ms: int = field(default=500, kw_only=True)
    """Milliseconds of pause after all `hosts` were tried for the first time; it doubles with every further round."""

    reconnect_delay_max_ms: int = field(default=30_000, kw_only=True)
    """Most milliseconds of such a pause. Each is shortened at random, by up to a half, so that not all come at once."""

    def __post_init__(self) -> None:
        if not self.queue:
            raise ConfigError("a RabbitMQ config without a queue: name the queue to read")
        if isinstance(self.hosts, str) or not self.hosts:
            raise ConfigError(f"hosts is {self.hosts!r}: it must be a list of one host or more")
        for host in self.hosts:
            _address(host, 0)
        check_multi_scheme(self.scheme)
        if isinstance(self.scheme, MessageMetadataSchemeAsMultiScheme):
            raise ConfigError(
                "scheme is a MessageMetadataSchemeAsMultiScheme, which wants a message's partition and offset: a message "
                "of RabbitMQ has neither, so take a SchemeAsMultiScheme"
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
        """The hosts with their ports; RabbitMQ's own port where none is named, 5671 with TLS and 5672 without."""
        return [_address(host, 5672 if self.tls is None else 5671) for host in self.hosts]

    def prefetch(self, max_spout_pending: int) -> int:
        """Most messages that a task may have open."""
        return self.prefetch_count or min(max_spout_pending, _MOST_PREFETCH)

    def delay(self, failures: int, chance: float) -> float:
        """Seconds to wait after so many failed attempts in a row; `chance` is from 0 to 1, at random.

        No wait while there is a host that has not been tried since the last pause.
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
