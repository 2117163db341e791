"""The settings of a `KestrelSpout`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kstorm.errors import ConfigError
from kstorm.fitting import check_fields


class HostInfo(NamedTuple):
    """Address of a Kestrel server's memcache protocol."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KestrelConfig:
    """The read settings of a `KestrelSpout`. Raises `ConfigError` if a value is out of range."""

    open_reads: int = 50
    """Maximum number of messages that a task has open on each of its hosts. Kestrel allows one open
    read per connection, so this is also the number of connections. `topology_max_spout_pending`, if
    lower, limits the sum over all hosts."""

    poll_ms: int = 1000
    """Maximum milliseconds that Kestrel delays its response while the queue is empty (`t=`)."""

    timeout_secs: float = 10.0
    """A host that does not respond for this number of seconds counts as failed. While a read waits
    for a message, `poll_ms` is added."""

    blacklist_time_secs: float = 60.0
    """Seconds during which a failed host is not used (Storm: 60)."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("open_reads", "poll_ms", "timeout_secs", "blacklist_time_secs"):
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(f"{name} is {value}: it must be above 0")

    def open_reads_per_host(self, hosts: int, max_spout_pending: int) -> int:
        """Return the number of connections of a task to each of its hosts, at least one."""
        return max(1, min(self.open_reads, max_spout_pending // hosts))


def host_infos(hosts: str | Sequence[str], port: int) -> list[HostInfo]:
    """Return the hosts with their ports. `port` is the default port."""
    names = [hosts] if isinstance(hosts, str) else list(hosts)
    if not names or not all(names):
        raise ConfigError(f"the Kestrel spout's hosts are {hosts!r}: name at least one host")
    return [_host_info(name, port) for name in names]


def _host_info(name: str, port: int) -> HostInfo:
    host, colon, own = name.rpartition(":")
    if colon and (not own.isdecimal() or ":" in host):
        raise ConfigError(f"the host {name!r} is not of the form host or host:port")
    info = HostInfo(host, int(own)) if colon else HostInfo(name, port)
    if not info.host or not 0 < info.port <= 65_535:
        raise ConfigError(
            f"the host {name!r} with port {info.port} is not an address: a port is from 1 to 65535"
        )
    return info


def hosts_for_task(hosts: Sequence[HostInfo], task_index: int, total_tasks: int) -> list[HostInfo]:
    """Return a task's hosts. As in Storm, these are all hosts if there are more hosts than tasks,
    otherwise one.

    Use a multiple of the number of hosts as the task count, so that every host is read by the same
    number of tasks.
    """
    if total_tasks < len(hosts):
        return list(hosts)
    return [hosts[task_index % len(hosts)]]
