"""An operator's access to a spout's nodes in ZooKeeper: read their contents and the partitions'
owners, and change offsets.

**No offset is changed under a running spout.** A change is one transaction. It acquires the lock of
every partition, writes each node if its version is unchanged, and releases the locks. If one lock
is held or one node has changed, nothing is done. A spout that has lost its lock for a moment
detects the change by the version and restarts.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
)

from kstorm.errors import InUseError
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.client import broker_errors, open_client
from kstorm.runtime.zookeeper.lease import NOT_TO_BLAME, NOTHING, lock_path, node_path


@dataclass(frozen=True, slots=True)
class OffsetNode:
    """The ZooKeeper state of one partition."""

    stored: StoredOffset | None
    """None if no offset is stored yet."""
    version: int
    """Version for compare-and-set. -1 if the node does not exist."""
    holder: str | None
    """Owner of the lock, or None."""


class OffsetNodes:
    """The nodes of one spout. `root_of` returns the parent node for a topic."""

    def __init__(self, client: KazooClient, root_of: Callable[[str], str], auth: str) -> None:
        self._client, self._root_of, self._auth = client, root_of, auth

    def read(self, partition: Partition) -> OffsetNode:
        """Read a partition's node. Raises `ConfigError` if it has no valid offset of that
        partition."""
        path = self._node(partition)
        with self._errors(path):
            holder = self._holder(partition)
            try:
                data, stat = self._client.get(path)
            except NoNodeError:
                return OffsetNode(None, -1, holder)
        stored = None if data == NOTHING else StoredOffset.from_json(data, partition, path)
        return OffsetNode(stored, stat.version, holder)

    def check_free(self, changes: Mapping[Partition, tuple[OffsetNode, StoredOffset]]) -> None:
        """Raise `InUseError` if a lock was held when the nodes were read. `write` checks again."""
        for partition, (node, _) in changes.items():
            if node.holder is not None:
                raise _in_use(self._node(partition), node.holder)

    def write(self, changes: Mapping[Partition, tuple[OffsetNode, StoredOffset]]) -> None:
        """Replace the offsets that were read, all or none. Raises `InUseError` with the lock's
        owner."""
        mark = json.dumps(
            {"command": "kstorm offsets", "host": socket.gethostname(), "pid": os.getpid()}
        ).encode()
        roots = sorted({self._root_of(partition.topic) for partition in changes})
        with self._errors(", ".join(roots)):
            for root in roots:
                self._client.ensure_path(f"{root}/locks")
            transaction = self._client.transaction()
            for partition, (node, stored) in changes.items():
                transaction.create(self._lock(partition), mark, ephemeral=True)
                if node.version < 0:
                    transaction.create(self._node(partition), stored.to_json())
                else:
                    transaction.set_data(self._node(partition), stored.to_json(), node.version)
                transaction.delete(self._lock(partition))
            for number, result in enumerate(transaction.commit()):
                if isinstance(result, Exception) and not isinstance(result, NOT_TO_BLAME):
                    raise self._refused(list(changes)[number // 3], result)

    def _node(self, partition: Partition) -> str:
        return node_path(self._root_of(partition.topic), partition)

    def _lock(self, partition: Partition) -> str:
        return lock_path(self._root_of(partition.topic), partition)

    def _refused(self, partition: Partition, error: Exception) -> Exception:
        path = self._node(partition)
        holder = self._holder(partition)
        if isinstance(error, NodeExistsError) and holder is not None:
            return _in_use(path, holder)
        if isinstance(error, NodeExistsError | BadVersionError | NoNodeError):
            return InUseError(
                f"another process changed {path} in the meantime. This command changed nothing; "
                "look again"
            )
        return error

    def _holder(self, partition: Partition) -> str | None:
        try:
            mark, _ = self._client.get(self._lock(partition))
        except NoNodeError:
            return None
        return describe_holder(mark)

    def _errors(self, where: str) -> AbstractContextManager[None]:
        return broker_errors(self._auth, where)


@contextmanager
def open_nodes(
    connect: str, root_of: Callable[[str], str], auth: str = "", tls: ZooKeeperTls | None = None
) -> Iterator[OffsetNodes]:
    """Open the nodes of a spout. Raises `BrokerError` if ZooKeeper cannot be reached within 10 s or
    rejects the login."""
    with open_client(connect, auth, tls) as client:
        yield OffsetNodes(client, root_of, auth)


def _in_use(path: str, holder: str) -> InUseError:
    return InUseError(
        f"{path} is in use: its lock is held by {holder}. Nothing was changed; stop all processes "
        "of that spout first"
    )


def describe_holder(mark: bytes) -> str:
    """Describe the owner of a lock. If it is not a lock of a kstorm spout, return its content."""
    try:
        found: Any = json.loads(mark)
        who = f"task {found['task']} of {found['component']!r} in {found['topology']!r}"
    except (ValueError, LookupError, TypeError):
        return mark[:200].decode(errors="replace")
    return f"{who}, pid {found.get('pid')} on {found.get('host')}"
