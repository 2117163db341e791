"""Watch the deactivation of a topology in a spout's process, and write the process's report
(`kstorm.runtime.zookeeper.topology_nodes`).

**The last known state remains valid.** While ZooKeeper is down, a topology stays active or
deactivated. A new process waits a few seconds for the first response. Without one it is active,
because a topology may run without ZooKeeper. With a login, nodes that everyone can change are
ignored (`kstorm.runtime.zookeeper.acl`).
"""

import time
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError

from kstorm.runtime.zookeeper.acl import OpenToAllError, check_own
from kstorm.runtime.zookeeper.session import SessionJob, ZooKeeperSession
from kstorm.runtime.zookeeper.topology_nodes import (
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


class TopologyWatch(SessionJob):
    """Watches one topology for one process. Only the session's thread waits for ZooKeeper.

    `session` is the process's session with this connect string and login, which its owner closes.
    Without it, the watch creates its own. Raises `ConfigError` for a malformed connect string.
    """

    look_every_secs = 5.0  # long, because many processes do this

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
        self._started = time.monotonic()
        self._session.add(self)

    @property
    def active(self) -> bool:
        """True if spouts may emit."""
        if not self._answered:
            return time.monotonic() - self._started > _FIRST_LOOK_SECS
        return self._deactivation is None

    @property
    def remark(self) -> str:
        """Reason why spouts may not emit, or ""."""
        if not self._answered:
            where = self._session.connect
            return (
                ""
                if self.active
                else f"waits until ZooKeeper at {where} reports whether it is deactivated"
            )
        return "" if self._deactivation is None else str(self._deactivation)

    @property
    def deactivated_at(self) -> float | None:
        """Unix time in seconds since which spouts may not emit. None if they may, or if it is
        unknown."""
        return (self._deactivation and self._deactivation.at) or None

    @property
    def problem(self) -> str:
        """Reason why activation and deactivation cannot be received at the moment, or ""."""
        holds = "deactivated" if self._deactivation else "active"
        return self._session.problem(
            [self],
            f"the topology stays {holds}, and requests to change that have no effect; check that "
            "address, or ignore this if there is no ZooKeeper",
        )

    @property
    def not_ready(self) -> str:
        """Reason why the process is not ready, or "". It is not ready if everyone can change the
        nodes that control it."""
        return self.problem if self._distrusts else ""

    def tell(self, report: SpoutReport) -> None:
        """Set the state of the process. It is written when `active` changes, and while inactive
        also when the number of trees changes."""
        with self._session.changed:
            self._report = report
            if self._due():
                self._session.changed.notify_all()

    def close(self) -> None:
        """Stop watching. The process's node ends with the session, which is closed now if the watch
        owns it."""
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

    # Methods of a job, called by the session.

    @property
    def has_work(self) -> bool:
        return self._look or self._due()

    def look_again(self) -> None:
        self._look = True

    def lost(self) -> None:
        # The process's node ended with the session, and perhaps ZooKeeper's watch too.
        self._written = None
        self._look = True

    def take_turn(self, client: KazooClient, lock: AbstractContextManager[Any]) -> None:
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
        with self._session.changed:
            self._look = True
            self._session.changed.notify_all()

    def _read(self, client: KazooClient) -> Deactivation | None:
        # If the node exists but cannot be read, its existence is sufficient.
        if client.exists(deactivated_path(self._topology), watch=self._woken) is None:
            return None
        try:
            return read_deactivation(client, self._topology)
        except NoAuthError:
            return Deactivation()

    def _write(self, client: KazooClient, report: SpoutReport) -> None:
        path, data = report_path(self._topology, report), msgspec.json.encode(report)
        # Set before writing, so that a concurrent `lost` prevails.
        written, self._written = self._written, report
        try:
            if written is None:
                self._create(client, path, data)
            else:
                client.set(path, data)
        except NoNodeError:
            # An operator removed the node.
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
        except NodeExistsError:
            # Left by an earlier run of this process, whose session has not ended yet.
            client.delete(path)
            client.create(path, data, ephemeral=True)
