"""A process's ZooKeeper session, and the one thread that asks ZooKeeper anything in it.

What has to be asked is a `Job`: a partition's lease (`kstorm.runtime.zookeeper.lease`), the watch over a topology
(`kstorm.runtime.zookeeper.watch`). Others say what a job is to do, under the session's lock, and never wait for ZooKeeper.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoAuthError

from kstorm.runtime.zookeeper.acl import OpenToAllError
from kstorm.runtime.zookeeper.client import NOT_NOW, is_ended, make_client, not_allowed, not_let_in
from kstorm.runtime.zookeeper.obstacles import obstacle
from kstorm.runtime.zookeeper.tls import ZooKeeperTls

if TYPE_CHECKING:
    from kstorm.runtime.zookeeper.lease import Lease

log = logging.getLogger(__name__)

SESSION_SECS: Final = 6.0
_LOOK_AGAIN_SECS: Final = 1.0
_AFTER_FAILURE_SECS: Final = 0.2
_AFTER_REFUSAL_SECS: Final = 1.0
_UNREACHABLE_SECS: Final = 2.0
_LOOK_WHY_SECS: Final = 1.0
_WHY_SECS: Final = 1.0  # no longer, since nothing else is done meanwhile
_LOOK_WHY_AGAIN_SECS: Final = 5.0
_CLOSE_SECS: Final = 2.0

_kazoo_log = logging.getLogger("kstorm.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)  # it would complain at each attempt; `problem` says it once


class Job:
    """Something that is to be done in a session, whenever it `has_work`. All but `take_turn` is called under the session's
    lock, and must not wait."""

    path: str
    """The node to name if ZooKeeper refuses."""
    refusal: str = ""
    """What ZooKeeper did or has that the last turn came to nothing; empty if it did not. Kept by the session."""
    rests_until: float = 0.0
    """No turn before this moment of the steady clock. Kept by the session."""
    gone: bool = False
    """Whether the session may forget it."""
    look_every_secs: float = 1.0
    """How often `look_again` is called, should a watch have got lost."""
    looks_next: float = 0.0
    """When it is called next. Kept by the session."""

    @property
    def has_work(self) -> bool:
        """Whether a turn would do something."""
        raise NotImplementedError

    def look_again(self) -> None:
        """What was read may have changed."""
        raise NotImplementedError

    def lost(self) -> None:
        """The session has ended, and took its ephemeral nodes along. The next one has begun, or will."""
        raise NotImplementedError

    def take_turn(self, client: Any, lock: AbstractContextManager[Any]) -> None:
        """Asks ZooKeeper, on the session's thread. Raises `KazooException` if it must be done once more."""
        raise NotImplementedError


class ZooKeeperSession:
    """One session after the other, as long as the process lives, for all jobs on one ZooKeeper under one login.

    `timeout` in seconds is how long the locks of a dead process stay; ZooKeeper may grant another, between 2 and 20 of its
    ticks. `auth` is a login and `tls` how to connect, see `kstorm.runtime.zookeeper.client`. Nothing connects before the first
    `add`. Raises `ConfigError` on a malformed connect string.
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
        """The lock. Whoever changes what a job is to do notifies all."""
        self._auth, self._tls = auth, tls
        retry = {"max_tries": -1, "max_delay": 2.0}
        self._client: KazooClient = make_client(
            connect, timeout, auth, tls, connection_retry=retry, logger=_kazoo_log
        )
        self._client.add_listener(self._heard)
        self._jobs: list[Job] = []
        self._connected = False
        self._since = time.monotonic()
        self._refusal = ""
        self._obstacle = ""
        self._looks_why_next = 0.0
        self._ended = False  # whether kazoo gave up, as it does where a login is refused
        self._ending = False
        self._thread: threading.Thread | None = None

    def add(self, job: Job) -> None:
        """Has a job take part; the first one connects."""
        with self.changed:
            self._jobs.append(job)
            if self._thread is None:
                self._since = time.monotonic()
                self._thread = threading.Thread(target=self._work, name="zookeeper", daemon=True)
                self._thread.start()
            self.changed.notify_all()

    def remove(self, job: Job) -> None:
        """Has it take part no more; its ephemeral nodes stay as long as the session."""
        with self.changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def save(self, lease: "Lease", data: bytes) -> None:
        """Has `data` written next, in place of anything that waits."""
        with self.changed:
            lease.queued = data
            self.changed.notify_all()

    def release(self, lease: "Lease") -> None:
        """Has a lock given up."""
        with self.changed:
            lease.leaving = True
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Waits until work that was done makes the condition true."""
        with self.changed:
            return self.changed.wait_for(condition, timeout)

    def wake(self, *_: Any) -> None:
        """Has every job look again; called by ZooKeeper's watches too."""
        with self.changed:
            for job in self._jobs:
                job.look_again()
            self.changed.notify_all()

    def problem(self, jobs: Iterable[Job], meanwhile: str) -> str:
        """Why these jobs cannot be done, if so for 2 s or more; empty if they can. `meanwhile`: what that means."""
        refusal = self._refusal or next((job.refusal for job in jobs if job.refusal), "")
        if self._refusal or (refusal and self._connected):
            return f"ZooKeeper at {self.connect} {refusal}"
        if self._connected or time.monotonic() - self._since <= _UNREACHABLE_SECS:
            return ""
        if self._obstacle:
            return f"ZooKeeper at {self.connect} cannot be used: {self._obstacle}"
        return f"ZooKeeper at {self.connect} cannot be reached: {meanwhile}"

    def close(self) -> None:
        """Ends the session, and with it every lock and every other ephemeral node. Waits at most a few seconds."""
        with self.changed:
            self._ending = True
            self.changed.notify_all()
        if self._thread is not None:
            self._client.stop()
            self._client.close()
            self._thread.join(_CLOSE_SECS)

    def _heard(self, state: str) -> None:
        """On kazoo's own thread: must not wait for ZooKeeper."""
        with self.changed:
            connected = state == KazooState.CONNECTED
            if connected != self._connected:
                self._connected, self._since = connected, time.monotonic()
                self._obstacle, self._looks_why_next = "", 0.0
            for job in self._jobs:
                job.look_again()  # a watch does not outlive its connection
            if state == KazooState.LOST:
                for job in self._jobs:
                    job.lost()
                if is_ended(self._client):
                    self._refusal, self._ended = f"refuses: {not_let_in(self._auth)}", True
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

    def _due(self) -> list[Job]:
        now = time.monotonic()
        return [job for job in self._jobs if job.has_work and job.rests_until <= now]

    def _patience(self) -> float:
        """Seconds until a job that rests is due, and a second at most."""
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
        """Asks now and then why there is no session, since kazoo does not tell."""
        now = time.monotonic()
        if now - self._since >= _LOOK_WHY_SECS and now >= self._looks_why_next:
            self._obstacle = obstacle(self.connect, self._tls, _WHY_SECS)
            self._looks_why_next = time.monotonic() + _LOOK_WHY_AGAIN_SECS

    def _start_again(self) -> None:
        with self.changed:
            ending = self.changed.wait_for(lambda: self._ending, _AFTER_REFUSAL_SECS)
        if not ending:
            self._client.start_async()

    def _give_turn(self, job: Job) -> None:
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
                else not_allowed(self._auth, job.path)
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
