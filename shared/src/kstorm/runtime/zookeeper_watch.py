"""How a spout's process hears that its topology was deactivated, and says that it obeys: see `zookeeper_topologies`.

The rule: **the last that was heard holds.** While ZooKeeper is away a topology stays as it is. Before ZooKeeper has said
anything a process waits a few seconds and then is active, since a topology may well run without any ZooKeeper.
"""

import logging
import threading
import time
from typing import Any, Final

import msgspec
from kazoo.client import KazooState
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError

from kstorm.runtime.zookeeper_client import NOT_NOW, is_ended, make_client, not_allowed, not_let_in
from kstorm.runtime.zookeeper_topologies import (
    Deactivation,
    SpoutReport,
    deactivated_path,
    make_root,
    read_deactivation,
    report_path,
    spouts_path,
)

_SESSION_SECS: Final = 6.0
_FIRST_LOOK_SECS: Final = 5.0
_LOOK_AGAIN_SECS: Final = 5.0
_REPORT_SECS: Final = 1.0
_AWAY_SECS: Final = 2.0
_CLOSE_SECS: Final = 2.0

_kazoo_log = logging.getLogger("kstorm.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)  # it would complain at each attempt; `problem` says it once


class TopologyWatch:
    """Looks after one topology for one process. Nothing here waits for ZooKeeper but a thread of its own.

    `auth` is a login, `scheme:user:password`, or empty. Raises `ConfigError` on a malformed connect string.
    """

    def __init__(self, connect: str, auth: str, topology: str) -> None:
        self._connect, self._auth, self._topology = connect, auth, topology
        retry = {"max_tries": -1, "max_delay": 2.0}
        self._client = make_client(connect, _SESSION_SECS, auth, connection_retry=retry, logger=_kazoo_log)
        self._client.add_listener(self._heard)
        self._changed = threading.Condition()
        self._connected = self._ending = False
        self._ended = False  # whether kazoo gave up, as it does where a login is refused
        self._look = True
        self._answered = False
        self._since = self._started = time.monotonic()
        self._refusal = ""
        self._deactivation: Deactivation | None = None
        self._report: SpoutReport | None = None
        self._written: SpoutReport | None = None
        self._next_report = 0.0
        self._thread = threading.Thread(target=self._work, name="zookeeper-topology", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._since = self._started = time.monotonic()
        self._thread.start()

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
            return "" if self.active else f"waits to hear from ZooKeeper at {self._connect} whether it is deactivated"
        return "" if self._deactivation is None else str(self._deactivation)

    @property
    def problem(self) -> str:
        """Why activate and deactivate cannot be heard at the moment; empty if they can."""
        if self._refusal:
            return f"ZooKeeper at {self._connect} refuses: {self._refusal}"
        if self._connected or time.monotonic() - self._since <= _AWAY_SECS:
            return ""
        holds = "deactivated" if self._deactivation else "active"
        return (
            f"ZooKeeper at {self._connect} cannot be reached: the topology stays {holds}, whatever is asked for meanwhile; "
            "check that address, or leave it if there is no ZooKeeper"
        )

    def tell(self, report: SpoutReport) -> None:
        """What the process does now. It is written if that it emits changed, and its trees only while it does not."""
        with self._changed:
            self._report = report
            if self._due():
                self._changed.notify_all()

    def close(self) -> None:
        """Ends the session, and with it the process's node."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._client.stop()
        self._client.close()
        self._thread.join(_CLOSE_SECS)

    def _due(self) -> bool:
        report, written = self._report, self._written
        if report is None or report == written:
            return False
        if written is None or report.active != written.active:
            return True
        return not report.active and time.monotonic() >= self._next_report

    def _heard(self, state: str) -> None:
        """On kazoo's own thread: must not wait for ZooKeeper."""
        with self._changed:
            connected = state == KazooState.CONNECTED
            if connected != self._connected:
                self._connected, self._since = connected, time.monotonic()
            if state == KazooState.LOST:
                self._written = None  # the node goes with its session
                self._ended = is_ended(self._client)
            self._look = True
            self._changed.notify_all()

    def _woken(self, _event: Any) -> None:
        """Called by ZooKeeper's watch."""
        with self._changed:
            self._look = True
            self._changed.notify_all()

    def _work(self) -> None:
        self._client.start_async()
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, _LOOK_AGAIN_SECS)  # should a watch have got lost
                if self._ending:
                    return
                ended, self._ended = self._ended, False
                if not (ended or self._connected):
                    continue
                self._look = False
                report = self._report if self._due() else None
            if ended:
                self._start_again()
            else:
                self._ask(report)

    def _has_work(self) -> bool:
        return self._ending or self._ended or (self._connected and (self._look or self._due()))

    def _start_again(self) -> None:
        self._refuse(not_let_in(self._auth))
        if not self._ending:
            self._client.start_async()

    def _ask(self, report: SpoutReport | None) -> None:
        try:
            self._read()
            if report is not None:
                self._write(report)
        except NOT_NOW:
            return  # `_heard` has us look again
        except NoAuthError:
            self._refuse(not_allowed(self._auth, spouts_path(self._topology)))
        except KazooException as error:
            self._refuse(f"{type(error).__name__} at {spouts_path(self._topology)}")
        else:
            self._refusal = ""

    def _refuse(self, why: str) -> None:
        self._refusal = why
        with self._changed:
            self._changed.wait_for(lambda: self._ending, _REPORT_SECS)

    def _read(self) -> None:
        """If the node may be seen but not read, that it is there counts."""
        deactivation = None
        if self._client.exists(deactivated_path(self._topology), watch=self._woken) is not None:
            try:
                deactivation = read_deactivation(self._client, self._topology)
            except NoAuthError:
                deactivation = Deactivation()
        with self._changed:
            self._deactivation, self._answered = deactivation, True

    def _write(self, report: SpoutReport) -> None:
        path, data = report_path(self._topology, report), msgspec.json.encode(report)
        try:
            if self._written is None:
                self._create(path, data)
            else:
                self._client.set(path, data)
        except NoNodeError:
            self._written = None  # somebody removed it
            self._look = True
            return
        self._written = report
        self._next_report = time.monotonic() + _REPORT_SECS

    def _create(self, path: str, data: bytes) -> None:
        make_root(self._client)
        self._client.ensure_path(spouts_path(self._topology))
        try:
            self._client.create(path, data, ephemeral=True)
        except NodeExistsError:  # of this process's life before, whose session has not ended yet
            self._client.delete(path)
            self._client.create(path, data, ephemeral=True)
