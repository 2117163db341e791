"""Read brokers and partitions from ZooKeeper, where Kafka up to 3.9 registers them: Storm's
`DynamicBrokersReader`.

    /brokers/ids/<id>
        {"host": …, "port": …, "endpoints": ["SSL://kafka-0:9093", …], …}
    /brokers/topics/<topic>
        {"partitions": {"0": [<broker>, …], …}, …}
    /brokers/topics/<topic>/partitions/<n>/state
        {"leader": <id>, …}

Each call opens and closes its own session, so there is no state between calls that could be lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kstorm.errors import BrokerError
from kstorm.kafka.hosts import GlobalPartitionInformation, ZkHosts, topics_matching
from kstorm.kafka.ports import UNKNOWN_BROKER, Broker
from kstorm.runtime.base.partition_lookup import LOOK_UP_SECS, NoTopicError
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.client import make_client, start_client

_SESSION_SECS: Final = 10.0

T = TypeVar("T")


class _Registration(msgspec.Struct):
    """A broker's registration."""

    host: str | None = None
    port: int = -1
    endpoints: list[str] = []
    listener_security_protocol_map: dict[str, str] = {}


class _Topic(msgspec.Struct):
    partitions: dict[int, list[int]]


class _State(msgspec.Struct):
    leader: int


class DynamicBrokersReader:
    """A `BrokersReader`. It uses a broker's first listener with `security_protocol`, the client's
    protocol.

    With `wildcard`, topics are regular expressions. `tls` is the process's setting, used unless
    `hosts` disables TLS. Raises `ConfigError` for a malformed connect string.
    """

    def __init__(
        self,
        hosts: ZkHosts,
        *,
        security_protocol: str = "plaintext",
        wildcard: bool = False,
        tls: ZooKeeperTls | None = None,
    ) -> None:
        self._hosts, self._protocol, self._wildcard = hosts, security_protocol.upper(), wildcard
        self._tls = tls if hosts.tls else None
        self._client()

    def get_broker_info(self, topic: str) -> Sequence[GlobalPartitionInformation]:
        # This also raises `BrokerError` if no broker is registered.
        with self._session() as client:
            brokers = self._brokers(client)
            return list(self._topics(client, topic, brokers))

    def _topics(
        self, client: KazooClient, topic: str, brokers: dict[int, Broker]
    ) -> Iterator[GlobalPartitionInformation]:
        path = f"{self._hosts.broker_zk_path}/topics"
        topics = topics_matching(topic, client.get_children(path)) if self._wildcard else [topic]
        assigned = self._get(client, [f"{path}/{name}" for name in topics], _Topic)
        for name, found in zip(topics, assigned, strict=True):
            if found is None or not found.partitions:
                if self._wildcard:
                    # deleted in the meantime
                    continue
                raise NoTopicError(
                    f"ZooKeeper at {self._hosts.zk_connect} has no topic {name!r} under {path}: "
                    "create it, or name another"
                )
            numbers = sorted(found.partitions)
            states = self._get(
                client, [f"{path}/{name}/partitions/{number}/state" for number in numbers], _State
            )
            information = GlobalPartitionInformation(name)
            for number, state in zip(numbers, states, strict=True):
                leader = (
                    UNKNOWN_BROKER if state is None else brokers.get(state.leader, UNKNOWN_BROKER)
                )
                information.add_partition(number, leader)
            yield information

    def _brokers(self, client: KazooClient) -> dict[int, Broker]:
        """Return the running brokers by ID."""
        path = f"{self._hosts.broker_zk_path}/ids"
        try:
            ids = client.get_children(path)
        except NoNodeError:
            ids = []
        registered = self._get(client, [f"{path}/{id}" for id in ids], _Registration)
        brokers = {
            int(id): self._address(id, found)
            for id, found in zip(ids, registered, strict=True)
            if found
        }
        if not brokers:
            raise BrokerError(
                f"ZooKeeper at {self._hosts.zk_connect} has no brokers under {path}. If this "
                "Kafka runs without ZooKeeper, as every Kafka from 4.0 on, use "
                "KafkaHosts(bootstrap_servers) instead of ZkHosts. Otherwise its brokers are "
                "down, or under another chroot or broker_zk_path"
            )
        return brokers

    def _address(self, id: str, registered: _Registration) -> Broker:
        """Return a broker's address for this client. Before Kafka 0.9, brokers had a single
        listener and registered no endpoints."""
        kinds = registered.listener_security_protocol_map
        for endpoint in registered.endpoints:
            listener, _, address = endpoint.partition("://")
            if kinds.get(listener, listener) == self._protocol:
                return Broker.from_string(address)
        if not registered.endpoints and registered.host:
            return Broker(registered.host, registered.port)
        raise BrokerError(
            f"broker {id} of ZooKeeper at {self._hosts.zk_connect} has no listener for "
            f"security.protocol {self._protocol.lower()!r}; its listeners are "
            f"{', '.join(registered.endpoints) or 'none'}: set security.protocol"
        )

    def _get(self, client: KazooClient, paths: Iterable[str], kind: type[T]) -> list[T | None]:
        """Return the contents of nodes, reading them concurrently. A missing node gives None."""
        found: list[T | None] = []
        for path, asked in [(path, client.get_async(path)) for path in paths]:
            try:
                data, _ = asked.get(timeout=LOOK_UP_SECS)
                found.append(msgspec.json.decode(data, type=kind))
            except NoNodeError:
                found.append(None)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise BrokerError(
                    f"{path} in ZooKeeper at {self._hosts.zk_connect} holds {data[:200]!r}, which "
                    f"Kafka does not write ({error}): check the chroot and broker_zk_path"
                ) from None
        return found

    @contextmanager
    def _session(self) -> Iterator[KazooClient]:
        client = self._client()
        try:
            start_client(client, self._hosts.zk_connect, self._tls, LOOK_UP_SECS)
            yield client
        except (KazooException, KazooTimeoutError) as error:
            raise BrokerError(
                f"ZooKeeper at {self._hosts.zk_connect} did not return the brokers: "
                f"{str(error) or type(error).__name__}; check that address"
            ) from None
        finally:
            client.stop()
            client.close()

    def _client(self) -> KazooClient:
        return make_client(self._hosts.zk_connect, _SESSION_SECS, "", self._tls, whose="ZkHosts'")
