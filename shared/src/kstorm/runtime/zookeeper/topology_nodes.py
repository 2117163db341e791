"""State of running topologies in ZooKeeper: whether one is deactivated, and the reports of its
spouts' processes.

    /kstorm-topologies/<topology>/deactivated
        exists while the topology is deactivated; has the operator and the time
    /kstorm-topologies/<topology>/spouts/<component>:<instance>
        ephemeral: report of a process that runs spout tasks

A spout's process writes its node when it starts and when it has stopped or resumed emitting. While
deactivated, it also writes it at most once a second as its trees end. So an operator can see that
nothing is in flight from any place that can reach ZooKeeper, and an active topology writes nothing.
A topology without nodes is active.
"""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Id, Permissions

from kstorm.errors import ConfigError, InUseError
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.client import broker_errors, open_client

ROOT: Final = "/kstorm-topologies"
_NAMES_ALONE: Final = Permissions.READ | Permissions.CREATE | Permissions.DELETE
"""Permissions of others at the root. The node of a topology cannot be deleted while it has
children, regardless of permissions."""
_SHARED_ACL: Final = [*CREATOR_ALL_ACL, ACL(_NAMES_ALONE, Id("world", "anyone"))]


class Deactivation(msgspec.Struct, frozen=True):
    """The operator who deactivated a topology, and the time."""

    host: str = ""
    """The host, possibly preceded by the user."""
    pid: int = 0
    at: float = 0.0
    """Unix time in seconds. 0 if unknown."""

    def __str__(self) -> str:
        if not self.at:
            return "deactivated"
        moment = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"deactivated since {moment}, from {self.host} (pid {self.pid})"


class SpoutReport(msgspec.Struct, frozen=True):
    """Report of a process that runs spout tasks."""

    component: str
    instance: str
    active: bool
    """True if it emits."""
    pending: int
    """Trees in flight. While the process is active, this is the value at its last start."""
    waiting: int
    """Failed messages that will be emitted again after activation. Updated along with `pending`."""
    message_timeout_secs: float
    """Minimum time in seconds until a tree times out. The actual time is up to half as long again."""


def topology_path(topology: str) -> str:
    return f"{ROOT}/{topology}"


def deactivated_path(topology: str) -> str:
    """Return the node that exists while the topology is deactivated."""
    return f"{topology_path(topology)}/deactivated"


def spouts_path(topology: str) -> str:
    """Return the parent node of the spout processes' reports."""
    return f"{topology_path(topology)}/spouts"


def report_path(topology: str, report: SpoutReport) -> str:
    """Return the node of one process's report."""
    return f"{spouts_path(topology)}/{report.component}:{report.instance}"


def make_root(client: KazooClient) -> None:
    """Create the node above all topologies, which only holds names.

    No matter which user creates it, others can add their topologies. Nodes below a topology's node
    belong to the user that created that node. With a login, no other user can change the root
    itself.
    """
    if client.exists(ROOT) is None:
        # a chroot, which belongs to the user
        client.ensure_path("/")
        with suppress(NodeExistsError):
            client.create(ROOT, acl=_SHARED_ACL if client.default_acl else OPEN_ACL_UNSAFE)


def read_deactivation(client: KazooClient, topology: str) -> Deactivation | None:
    """Return the deactivation, or None if the topology is active. Only the node's existence
    matters, because its content is only for display."""
    try:
        data, _ = client.get(deactivated_path(topology))
    except NoNodeError:
        return None
    try:
        return msgspec.json.decode(data, type=Deactivation)
    except msgspec.MsgspecError:
        return Deactivation()


class Topologies:
    """An operator's view of the topologies in a ZooKeeper. Every method raises `BrokerError` if
    ZooKeeper refuses."""

    def __init__(self, client: KazooClient, auth: str, connect: str) -> None:
        self._client, self._auth = client, auth
        self.connect = connect
        """Connect string of this ZooKeeper."""

    def names(self) -> Sequence[str]:
        """Return the topologies whose spouts have ever run with this ZooKeeper, except killed
        ones."""
        with broker_errors(self._auth, ROOT):
            try:
                return sorted(self._client.get_children(ROOT))
            except NoNodeError:
                return []

    def check(self, topology: str) -> None:
        """Raise `ConfigError` with the known topologies if no spout of this topology has run."""
        names = self.names()
        if topology not in names:
            known = (
                f"its topologies are {', '.join(names)}"
                if names
                else "no spout has run with this ZooKeeper"
            )
            raise ConfigError(f"ZooKeeper at {self.connect} has no topology {topology!r}; {known}")

    def deactivation(self, topology: str) -> Deactivation | None:
        with broker_errors(self._auth, deactivated_path(topology)):
            return read_deactivation(self._client, topology)

    def deactivate(self, topology: str, by: str = "") -> bool:
        """Deactivate a topology, so that its spouts stop emitting. Return False if it already is.

        `by` is the operator's name. It defaults to this host.
        """
        mark = Deactivation(by or socket.gethostname(), os.getpid(), time.time())
        with broker_errors(self._auth, deactivated_path(topology)):
            try:
                self._client.create(deactivated_path(topology), msgspec.json.encode(mark))
            except NodeExistsError:
                return False
        return True

    def activate(self, topology: str) -> bool:
        """Activate a topology, so that its spouts emit. Return False if it already is."""
        with broker_errors(self._auth, deactivated_path(topology)):
            try:
                self._client.delete(deactivated_path(topology))
            except NoNodeError:
                return False
        return True

    def spouts(self, topology: str) -> Sequence[SpoutReport]:
        """Return the reports of the processes that run its spout tasks. Dead ones are included
        until their session times out."""
        with broker_errors(self._auth, spouts_path(topology)):
            return sorted(
                self._reports(topology), key=lambda report: (report.component, report.instance)
            )

    def forget(self, topology: str) -> None:
        """Remove all nodes of a topology, so that it is active if it is started again. Raises
        `InUseError` if one of its spouts runs."""
        with broker_errors(self._auth, topology_path(topology)):
            for path in (
                spouts_path(topology),
                deactivated_path(topology),
                topology_path(topology),
            ):
                try:
                    self._client.delete(path)
                except NoNodeError:
                    continue
                except NotEmptyError:
                    raise InUseError(
                        f"spouts of {topology!r} still run: "
                        f"{', '.join(self._client.get_children(spouts_path(topology)))}"
                    ) from None

    def _reports(self, topology: str) -> Iterator[SpoutReport]:
        path = spouts_path(topology)
        try:
            names = self._client.get_children(path)
        except NoNodeError:
            return
        for name in names:
            try:
                yield msgspec.json.decode(self._client.get(f"{path}/{name}")[0], type=SpoutReport)
            except (NoNodeError, msgspec.MsgspecError):
                # ended in the meantime, or not a report
                continue


@contextmanager
def open_topologies(
    connect: str, auth: str = "", tls: ZooKeeperTls | None = None
) -> Iterator[Topologies]:
    """Open the topologies of a ZooKeeper. Raises `BrokerError` if it cannot be reached within 10
    s."""
    with open_client(connect, auth, tls) as client:
        yield Topologies(client, auth, connect)
