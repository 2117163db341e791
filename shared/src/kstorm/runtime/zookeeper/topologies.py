"""What ZooKeeper knows of topologies at work: whether one was deactivated, and what its spouts' processes do about it.

    /kstorm-topologies/<topology>/deactivated                     there while it is deactivated; says by whom and when
    /kstorm-topologies/<topology>/spouts/<component>:<instance>   ephemeral: what a process that runs spout tasks says of itself

A spout's process writes its node when it starts and when it has obeyed, and while it is deactivated once a second at
most as its trees end. So an operator sees that nothing is in flight wherever ZooKeeper can be reached, and a topology
at work writes nothing. A topology that no node speaks of is active.
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
from kstorm.runtime.zookeeper.client import open_client, told_errors
from kstorm.runtime.zookeeper.tls import ZooKeeperTls

ROOT: Final = "/kstorm-topologies"
_NAMES_ALONE: Final = Permissions.READ | Permissions.CREATE | Permissions.DELETE
"""What others may do at the root. A topology's node that has nodes below it cannot be deleted, whoever may."""
_SHARED_ACL: Final = [*CREATOR_ALL_ACL, ACL(_NAMES_ALONE, Id("world", "anyone"))]


class Deactivation(msgspec.Struct, frozen=True):
    """Who deactivated a topology, and when."""

    host: str = ""
    """The machine, perhaps with the user before it."""
    pid: int = 0
    at: float = 0.0
    """Unix time in seconds; 0 if it is not known."""

    def __str__(self) -> str:
        if not self.at:
            return "deactivated"
        moment = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"deactivated since {moment}, from {self.host} (pid {self.pid})"


class SpoutReport(msgspec.Struct, frozen=True):
    """What a process that runs spout tasks says of itself."""

    component: str
    instance: str
    active: bool
    """Whether it emits."""
    pending: int
    """Trees in flight. While the process is active this is as old as its last start."""
    waiting: int
    """Messages that failed and will be emitted again once it is active; as old as `pending`."""
    message_timeout_secs: float
    """How long a tree may be in flight, at least; it may take half as long again."""


def topology_path(topology: str) -> str:
    """The node that has all of one topology."""
    return f"{ROOT}/{topology}"


def deactivated_path(topology: str) -> str:
    """The node that is there while the topology is deactivated."""
    return f"{topology_path(topology)}/deactivated"


def spouts_path(topology: str) -> str:
    """The node whose children are the spouts' processes."""
    return f"{topology_path(topology)}/spouts"


def report_path(topology: str, report: SpoutReport) -> str:
    """The node of one process."""
    return f"{spouts_path(topology)}/{report.component}:{report.instance}"


def make_root(client: KazooClient) -> None:
    """Makes the node above all topologies, which holds names only. Whoever is the first to come, others may have theirs there too;
    what is below a topology's node is for the user that made that. With a login nobody else may change the node itself."""
    if client.exists(ROOT) is None:
        client.ensure_path("/")  # a chroot, which is the user's own
        with suppress(NodeExistsError):
            client.create(ROOT, acl=_SHARED_ACL if client.default_acl else OPEN_ACL_UNSAFE)


def read_deactivation(client: KazooClient, topology: str) -> Deactivation | None:
    """Who deactivated it; None if it is active. What stands in the node is told only, that it is there counts."""
    try:
        data, _ = client.get(deactivated_path(topology))
    except NoNodeError:
        return None
    try:
        return msgspec.json.decode(data, type=Deactivation)
    except msgspec.MsgspecError:
        return Deactivation()


class Topologies:
    """An operator's view of a ZooKeeper's topologies. Every method raises `BrokerError` if ZooKeeper refuses."""

    def __init__(self, client: KazooClient, auth: str, connect: str) -> None:
        self._client, self._auth = client, auth
        self.connect = connect
        """Where this ZooKeeper is."""

    def names(self) -> Sequence[str]:
        """The topologies whose spouts have ever run with this ZooKeeper, but for those that were killed."""
        with told_errors(self._auth, ROOT):
            try:
                return sorted(self._client.get_children(ROOT))
            except NoNodeError:
                return []

    def check(self, topology: str) -> None:
        """Raises `ConfigError`, naming those that there are, if no spout of that topology has run."""
        names = self.names()
        if topology not in names:
            known = (
                f"those there are: {', '.join(names)}"
                if names
                else "no spout has run with this ZooKeeper"
            )
            raise ConfigError(
                f"ZooKeeper at {self.connect} knows no topology {topology!r}; {known}"
            )

    def deactivation(self, topology: str) -> Deactivation | None:
        """Who deactivated it; None if it is active."""
        with told_errors(self._auth, deactivated_path(topology)):
            return read_deactivation(self._client, topology)

    def deactivate(self, topology: str, by: str = "") -> bool:
        """Has its spouts stop to emit; False if it was deactivated before. `by`: who, else this machine."""
        mark = Deactivation(by or socket.gethostname(), os.getpid(), time.time())
        with told_errors(self._auth, deactivated_path(topology)):
            try:
                self._client.create(deactivated_path(topology), msgspec.json.encode(mark))
            except NodeExistsError:
                return False
        return True

    def activate(self, topology: str) -> bool:
        """Has its spouts emit; False if it was active before."""
        with told_errors(self._auth, deactivated_path(topology)):
            try:
                self._client.delete(deactivated_path(topology))
            except NoNodeError:
                return False
        return True

    def spouts(self, topology: str) -> Sequence[SpoutReport]:
        """What the processes say that run its spout tasks now, or have died within their session's timeout."""
        with told_errors(self._auth, spouts_path(topology)):
            return sorted(
                self._reports(topology), key=lambda report: (report.component, report.instance)
            )

    def forget(self, topology: str) -> None:
        """Removes all of it, so that a topology of that name that is started anew is active; raises `InUseError` if a
        spout of it runs."""
        with told_errors(self._auth, topology_path(topology)):
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
                        f"spouts of {topology!r} still run: {', '.join(self._client.get_children(spouts_path(topology)))}"
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
            except (NoNodeError, msgspec.MsgspecError):  # it ended just now, or is no node of ours
                continue


@contextmanager
def open_topologies(
    connect: str, auth: str = "", tls: ZooKeeperTls | None = None
) -> Iterator[Topologies]:
    """The topologies of a ZooKeeper. Raises `BrokerError` if it cannot be reached within 10 s."""
    with open_client(connect, auth, tls) as client:
        yield Topologies(client, auth, connect)
