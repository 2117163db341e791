"""How a spout's process hears that its topology was deactivated, and says that it obeys: see
`kstorm.runtime.zookeeper.topologies`.

The rule: **the last that was heard holds.** While ZooKeeper is away a topology stays as it is. Before ZooKeeper has said
anything a process waits a few seconds and then is active, since a topology may well run without any ZooKeeper. With a login,
what everybody may change says nothing: see `kstorm.runtime.zookeeper.acl`.
"""

import time
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError

from kstorm.runtime.zookeeper.acl import OpenToAllError, check_own
from kstorm.runtime.zookeeper.session import Job, ZooKeeperSession
from kstorm.runtime.zookeeper.topologies import (
    Deactivation,
    SpoutReport,
    deactivated_path,
    make_root,
    read_deactivation,
    report_path,
    spouts_path,
    topology_path,
)

_FIRST_LOOK_SECS: Final = 5.0
_REPORT_SECS: Final = 1.0


class TopologyWatch(Job):
    """Looks after one topology for one process. Nothing here waits for ZooKeeper but the session's thread.

    `session`: the one that the process has with this connect string and login, which is its owner's to close; without, it has
    one of its own. Raises `ConfigError` on a malformed connect string.
    """

    look_every_secs = 5.0  # many processes may do so

    def __init__(
        self, connect: str, auth: str, topology: str, session: ZooKeeperSession | None = None
    ) -> None:
        self._topology, self._auth = topology, auth
        self._session = ZooKeeperSession(connect, auth) if session is None else session
        self._owns_session = session is None
        self.path = spouts_path(topology)
        self._obeyed = (topology_path(topology), deactivated_path(topology), self.path)
        self._look = True
        self._answered = False
        self._distrusts = False
        self._started = time.monotonic()
        self._deactivation: Deactivation | None = None
        self._report: SpoutReport | None = None
        self._written: SpoutReport | None = None
        self._next_report = 0.0

    def start(self) -> None:
        """Begins to look."""
        self._started = time.monotonic()
        self._session.add(self)

    @property
    def active(self) -> bool:
        """Whether spouts are to emit."""
        if not self._answered:
            return time.monotonic() - self._started > _FIRST_LOOK_SECS
        return self._deactivation is None

    @property
    def remark(self) -> str:
        """Why spouts are not to emit; empty if they are."""
        if not self._answered:
            where = self._session.connect
            return (
                ""
                if self.active
                else f"waits to hear from ZooKeeper at {where} whether it is deactivated"
            )
        return "" if self._deactivation is None else str(self._deactivation)

    @property
    def deactivated_at(self) -> float | None:
        """Since when spouts are not to emit, as Unix time in seconds; None if they are, or if that is not known."""
        return (self._deactivation and self._deactivation.at) or None

    @property
    def problem(self) -> str:
        """Why activate and deactivate cannot be heard at the moment; empty if they can."""
        holds = "deactivated" if self._deactivation else "active"
        return self._session.problem(
            [self],
            f"the topology stays {holds}, whatever is asked for meanwhile; check that address, or leave it if there is no "
            "ZooKeeper",
        )

    @property
    def not_ready(self) -> str:
        """Why the process is not ready for its part: what it would obey, everybody may change. Empty if that is not so."""
        return self.problem if self._distrusts else ""

    def tell(self, report: SpoutReport) -> None:
        """What the process does now. It is written if that it emits changed, and its trees only while it does not."""
        with self._session.changed:
            self._report = report
            if self._due():
                self._session.changed.notify_all()

    def close(self) -> None:
        """Looks no more. The process's node goes with the session, which ends now if it is this watch's own."""
        self._session.remove(self)
        if self._owns_session:
            self._session.close()

    def _due(self) -> bool:
        report, written = self._report, self._written
        if report is None or report == written:
            return False
        if written is None or report.active != written.active:
            return True
        return not report.active and time.monotonic() >= self._next_report

    # What the session asks of a job.

    @property
    def has_work(self) -> bool:
        """Whether to read, or to write what the process said."""
        return self._look or self._due()

    def look_again(self) -> None:
        """The topology may have been activated or deactivated."""
        self._look = True

    def lost(self) -> None:
        """The process's node went with the session, and the watch may have."""
        self._written = None
        self._look = True

    def take_turn(self, client: KazooClient, lock: AbstractContextManager[Any]) -> None:
        """Reads whether the topology is to be active, and writes what the process does if that is due."""
        with lock:
            self._look = False
            report = self._report if self._due() else None
        try:
            check_own(client, self._auth, self._obeyed)
            deactivation = self._read(client)
            with lock:
                self._deactivation, self._answered, self._distrusts = deactivation, True, False
            if report is not None:
                self._write(client, report)
        except KazooException as error:
            self._look = True
            self._distrusts = self._distrusts or isinstance(error, OpenToAllError)
            raise

    def _woken(self, _event: Any) -> None:
        """Called by ZooKeeper's watch."""
        with self._session.changed:
            self._look = True
            self._session.changed.notify_all()

    def _read(self, client: KazooClient) -> Deactivation | None:
        """If the node may be seen but not read, that it is there counts."""
        if client.exists(deactivated_path(self._topology), watch=self._woken) is None:
            return None
        try:
            return read_deactivation(client, self._topology)
        except NoAuthError:
            return Deactivation()

    def _write(self, client: KazooClient, report: SpoutReport) -> None:
        path, data = report_path(self._topology, report), msgspec.json.encode(report)
        written, self._written = self._written, report  # first, so that `lost` has the last word
        try:
            if written is None:
                self._create(client, path, data)
            else:
                client.set(path, data)
        except NoNodeError:  # somebody removed it
            self._written, self._look = None, True
        except KazooException:
            if self._written is report:
                self._written = written
            raise
        else:
            self._next_report = time.monotonic() + _REPORT_SECS

    def _create(self, client: KazooClient, path: str, data: bytes) -> None:
        make_root(client)
        client.ensure_path(spouts_path(self._topology))
        try:
            client.create(path, data, ephemeral=True)
        except NodeExistsError:  # of this process's life before, whose session has not ended yet
            client.delete(path)
            client.create(path, data, ephemeral=True)
