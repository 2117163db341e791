"""A process's ZooKeeper session, and the only thread that sends requests in it.

Requests are made by a `SessionJob`: a partition's lease (`kstorm.runtime.zookeeper.lease`) or the
watch of a topology (`kstorm.runtime.zookeeper.topology_watch`). Other threads set the requests of a
job under the session's lock, and never wait for ZooKeeper.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoAuthError

from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.zookeeper.acl import OpenToAllError
from kstorm.runtime.zookeeper.client import (
    NOT_NOW,
    is_ended,
    login_error,
    make_client,
    permission_error,
)
from kstorm.runtime.zookeeper.connection_problems import connection_problem

log = logging.getLogger(__name__)

SESSION_SECS: Final = 6.0
_LOOK_AGAIN_SECS: Final = 1.0
_AFTER_FAILURE_SECS: Final = 0.2
_AFTER_REFUSAL_SECS: Final = 1.0
_UNREACHABLE_SECS: Final = 2.0
_LOOK_WHY_SECS: Final = 1.0
# short, because no other work is done during this time
_WHY_SECS: Final = 1.0
_LOOK_WHY_AGAIN_SECS: Final = 5.0
_CLOSE_SECS: Final = 2.0

_kazoo_log = logging.getLogger("kstorm.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)  # kazoo would log each attempt, `problem` reports it once


class SessionJob:
    """Work to do in a session whenever it `has_work`. Everything except `take_turn` is called under
    the session's lock and must not wait."""

    path: str
    """The node to name if ZooKeeper refuses."""
    refusal: str = ""
    """Error of the last turn, or "" if it succeeded. The session maintains it."""
    rests_until: float = 0.0
    """Monotonic time before which the job gets no turn. The session maintains it."""
    gone: bool = False
    """True if the session may forget the job."""
    look_every_secs: float = 1.0
    """Seconds between calls of `look_again`, in case a watch was lost."""
    looks_next: float = 0.0
    """Time of the next such call. The session maintains it."""

    @property
    def has_work(self) -> bool:
        """True if a turn would do something."""
        raise NotImplementedError

    def look_again(self) -> None:
        """Request another read, because the data may have changed."""
        raise NotImplementedError

    def lost(self) -> None:
        """The session has ended with its ephemeral nodes. Another session has started or will
        start."""
        raise NotImplementedError

    def take_turn(self, client: Any, lock: AbstractContextManager[Any]) -> None:
        """Send requests, on the session's thread. Raises `KazooException` if the turn must be
        repeated."""
        raise NotImplementedError


class LockJob(SessionJob):
    """A job that holds a lock and writes a node. Other threads request both through the session."""

    queued: bytes | None = None
    """Data to write next."""
    leaving: bool = False
    """True if the lock is to be released."""


class ZooKeeperSession:
    """A process's connection to one ZooKeeper with one login, for all jobs that use it. If a
    session expires, another one is started.

    `timeout` is the time in seconds for which the locks of a dead process remain. ZooKeeper may
    change it to between 2 and 20 of its ticks. For `auth` and `tls` see
    `kstorm.runtime.zookeeper.client`. No connection is made before the first `add`. Raises
    `ConfigError` for a malformed connect string.
    """

    def __init__(
        self,
        connect: str,
        auth: str = "",
        timeout: float = SESSION_SECS,
        tls: ZooKeeperTls | None = None,
    ) -> None:
        self.connect = connect
        self.changed = threading.Condition()
        """The session's lock. After changing a job's requests, notify all waiters."""
        self._auth, self._tls = auth, tls
        retry = {"max_tries": -1, "max_delay": 2.0}
        self._client: KazooClient = make_client(
            connect, timeout, auth, tls, connection_retry=retry, logger=_kazoo_log
        )
        self._client.add_listener(self._heard)
        self._jobs: list[SessionJob] = []
        self._connected = False
        self._since = time.monotonic()
        self._refusal = ""
        self._obstacle = ""
        self._looks_why_next = 0.0
        # True if kazoo gave up, as after a rejected login.
        self._ended = False
        self._ending = False
        self._thread: threading.Thread | None = None

    def add(self, job: SessionJob) -> None:
        """Add a job. The first one connects."""
        with self.changed:
            self._jobs.append(job)
            if self._thread is None:
                self._since = time.monotonic()
                self._thread = threading.Thread(target=self._work, name="zookeeper", daemon=True)
                self._thread.start()
            self.changed.notify_all()

    def remove(self, job: SessionJob) -> None:
        """Remove a job. Its ephemeral nodes stay until the session ends."""
        with self.changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def save(self, lease: LockJob, data: bytes) -> None:
        """Request a write of `data`. It replaces a write that is still waiting."""
        with self.changed:
            lease.queued = data
            self.changed.notify_all()

    def release(self, lease: LockJob) -> None:
        """Request the release of a lock."""
        with self.changed:
            lease.leaving = True
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until the condition is true after some work. Return False after the timeout."""
        with self.changed:
            return self.changed.wait_for(condition, timeout)

    def wake(self, *_: Any) -> None:
        """Make every job read again. Also called by ZooKeeper's watches."""
        with self.changed:
            for job in self._jobs:
                job.look_again()
            self.changed.notify_all()

    def problem(self, jobs: Iterable[SessionJob], meanwhile: str) -> str:
        """Return the reason why these jobs cannot be done, or "". An outage is reported after 2 s.

        `meanwhile` describes the consequence of an outage.
        """
        refusal = self._refusal or next((job.refusal for job in jobs if job.refusal), "")
        if self._refusal or (refusal and self._connected):
            return f"ZooKeeper at {self.connect} {refusal}"
        if self._connected or time.monotonic() - self._since <= _UNREACHABLE_SECS:
            return ""
        if self._obstacle:
            return f"ZooKeeper at {self.connect} cannot be used: {self._obstacle}"
        return f"ZooKeeper at {self.connect} cannot be reached: {meanwhile}"

    def close(self) -> None:
        """End the session, and with it every lock and other ephemeral node. Waits a few seconds at
        most."""
        with self.changed:
            self._ending = True
            self.changed.notify_all()
        if self._thread is not None:
            self._client.stop()
            self._client.close()
            self._thread.join(_CLOSE_SECS)

    def _heard(self, state: str) -> None:
        # kazoo calls this on its own thread, so it must not wait for ZooKeeper.
        with self.changed:
            connected = state == KazooState.CONNECTED
            if connected != self._connected:
                self._connected, self._since = connected, time.monotonic()
                self._obstacle, self._looks_why_next = "", 0.0
            for job in self._jobs:
                # A watch ends with its connection.
                job.look_again()
            if state == KazooState.LOST:
                for job in self._jobs:
                    job.lost()
                if is_ended(self._client):
                    self._refusal, self._ended = f"refuses: {login_error(self._auth)}", True
            self.changed.notify_all()

    def _work(self) -> None:
        self._client.start_async()
        while True:
            with self.changed:
                if not self.changed.wait_for(self._has_work, self._patience()):
                    self._look_again()
                if self._ending:
                    return
                ended, self._ended = self._ended, False
                due = self._due() if self._connected else []
            if ended:
                self._start_again()
                continue
            for job in due:
                self._give_turn(job)
            if not self._connected:
                self._look_why()

    def _has_work(self) -> bool:
        return self._ending or self._ended or (self._connected and bool(self._due()))

    def _due(self) -> list[SessionJob]:
        now = time.monotonic()
        return [job for job in self._jobs if job.has_work and job.rests_until <= now]

    def _patience(self) -> float:
        """Return the seconds until the next resting job is due, at most one second."""
        now = time.monotonic()
        return min(
            [
                _LOOK_AGAIN_SECS,
                *(job.rests_until - now for job in self._jobs if job.rests_until > now),
            ]
        )

    def _look_again(self) -> None:
        now = time.monotonic()
        for job in self._jobs:
            if job.looks_next <= now:
                job.looks_next = now + job.look_every_secs
                job.look_again()

    def _look_why(self) -> None:
        """Check from time to time why there is no session, because kazoo does not report the
        reason."""
        now = time.monotonic()
        if now - self._since >= _LOOK_WHY_SECS and now >= self._looks_why_next:
            self._obstacle = connection_problem(self.connect, self._tls, _WHY_SECS)
            self._looks_why_next = time.monotonic() + _LOOK_WHY_AGAIN_SECS

    def _start_again(self) -> None:
        with self.changed:
            ending = self.changed.wait_for(lambda: self._ending, _AFTER_REFUSAL_SECS)
        if not ending:
            self._client.start_async()

    def _give_turn(self, job: SessionJob) -> None:
        rest = 0.0
        try:
            job.take_turn(self._client, self.changed)
        except NOT_NOW as error:
            log.debug("%s waits: %r", job.path, error)
            rest = _AFTER_FAILURE_SECS
        except OpenToAllError as error:
            job.refusal, rest = str(error), _AFTER_REFUSAL_SECS
        except KazooException as error:
            allowed = not isinstance(error, NoAuthError)
            why = (
                f"{type(error).__name__} at {job.path}"
                if allowed
                else permission_error(self._auth, job.path)
            )
            job.refusal = f"refuses: {why}"
            rest = _AFTER_REFUSAL_SECS
        except Exception as error:  # the thread must not die silently: all other jobs need it
            if not job.refusal:
                log.exception("%s", job.path)
            job.refusal = f"refuses: {type(error).__name__} at {job.path}: {error}"
            rest = _AFTER_REFUSAL_SECS
        else:
            self._refusal = job.refusal = ""
        with self.changed:
            job.rests_until = time.monotonic() + rest if rest else 0.0
            if job.gone:
                self._jobs.remove(job)
            self.changed.notify_all()
