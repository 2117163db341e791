"""The program of one task: its start, its messages, and its next start after its end.

In a service, messages are handled on the event loop, and heartbeats show that the child works. In a
test without an event loop (`BoltTester`, `LocalCluster`), the task blocks until the child has
answered, so that a run has one order.
"""

import asyncio
import logging
import shlex
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from kstorm.errors import KstormError, UnsendableError
from kstorm.multilang.child import Child
from kstorm.multilang.handshake import storm_conf, storm_context
from kstorm.multilang.metrics import metrics_of
from kstorm.multilang.program import Program
from kstorm.topology import Config, TopologyContext
from kstorm.topology.context import CLOCK

_LEVELS: Final = {
    0: logging.DEBUG,
    1: logging.DEBUG,
    2: logging.INFO,
    3: logging.WARNING,
    4: logging.ERROR,
}
_OF_TUPLES: Final = ("emit", "ack", "fail")
_FIRST_DELAY_SECS: Final = 0.1
_LONGEST_DELAY_SECS: Final = 10.0
_LONG_LIFE_SECS: Final = 30.0
"""After a life of this length, the next start is not delayed."""
_SETTLE_SECS: Final = 2.0
"""Time in which a child may finish its tuples before its task leaves the process."""
_LOOK_SECS: Final = 0.01


class ShellError(KstormError):
    """A program ended, hung or wrote garbage, or it reported an error."""


class ShellOwner(Protocol):
    """The task's component."""

    def _hear(self, command: str, message: dict[str, Any]) -> None:
        """Handle an emit, an ack or a fail."""
        ...

    def _lose(self, error: ShellError) -> None:
        """Give up what the child had. The error is to be reported."""
        ...

    def _report(self, error: Exception) -> None: ...

    def _flush(self) -> None:
        """Send what was emitted between two calls of the component."""
        ...


class Shell:
    """The program of one task."""

    def __init__(
        self,
        program: Program,
        owner: ShellOwner,
        measured: dict[str, float],
        config: Config,
        context: TopologyContext,
    ) -> None:
        self._program, self._owner, self._measured = program, owner, measured
        self._name = f"{context.component!r} ({shlex.join(program.command)})"
        self._log = logging.getLogger(f"kstorm.multilang.{context.component}")
        self._folder = tempfile.TemporaryDirectory(prefix="kstorm-pids-")
        self._handshake = {
            "pidDir": self._folder.name,
            "conf": storm_conf(config, context, program._given),
            "context": storm_context(context),
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        if CLOCK not in context.resources:
            with suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()
        self._child: Child | None = None
        self._began = self._not_before = 0.0
        self._delay = _FIRST_DELAY_SECS
        self._news: asyncio.Event | None = None if self._loop is None else asyncio.Event()
        self._trouble: ShellError | None = None
        self._closed = False
        self.lives = 0
        """Number of children so far."""
        self.syncs = 0
        """Number of `sync` messages of this child."""
        self.errors = 0
        """Number of errors that children have reported."""

    @property
    def blocking(self) -> bool:
        """True in a test without an event loop."""
        return self._loop is None

    @property
    def alive(self) -> bool:
        """True if there is a child."""
        return self._child is not None

    @property
    def trouble(self) -> ShellError | None:
        """The reason for the end of the last child, until the next one starts."""
        return self._trouble

    @property
    def unwritten(self) -> int:
        """Number of messages that the child has not taken yet."""
        return 0 if self._child is None else self._child.unwritten

    def start(self) -> None:
        """Start the program. Raises `ConfigError` if there is no such command."""
        self._child = Child(
            self._program.command,
            self._program.codec,
            env=self._program.environment,
            cwd=self._program.cwd,
            on_news=self._call_drain,
            on_line=lambda line: self._log.info("%s", line),
        )
        self._began = time.monotonic()
        self.lives += 1
        self.syncs = 0
        self._trouble = None
        self.send(self._handshake)

    async def ready(self) -> None:
        """Return once there is a child. Start one if the last one has ended."""
        while self._child is None:
            wait = self._not_before - time.monotonic()
            if wait > 0 and not self.blocking:
                await asyncio.sleep(wait)
                continue
            self.start()

    def send(self, message: Mapping[str, Any] | list[int]) -> None:
        """Send a message to the child, if there is one.

        Raises `UnsendableError` if a value has no counterpart in the child's format.
        """
        if self._child is None:
            return
        try:
            self._child.send(message)
        except (TypeError, ValueError, OverflowError) as error:
            raise UnsendableError(
                f"a tuple for {self._name} cannot be written as {self._program.serializer}: "
                f"{error}; emit plain values, or use the serializer msgpack"
            ) from None

    async def until(self, done: Callable[[], bool], what: str) -> bool:
        """Handle messages until `done`. Return False if the child ended instead.

        A child that takes longer than the timeout is ended. `what` it did not do is in the error.
        """
        until = time.monotonic() + self._program.timeout_secs
        life = self.lives
        while not done():
            if self._child is None or self.lives != life:
                return False
            left = until - time.monotonic()
            if left <= 0:
                self.hangs(what)
                return False
            if self._news is None:
                self._child.wait(left)
                self.drain()
                continue
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)
        return True

    async def settle(self, done: Callable[[], bool]) -> None:
        """Handle messages until `done`, for a short time. The child may be slow."""
        until = time.monotonic() + _SETTLE_SECS
        while self._news is not None and self.alive and not done():
            if time.monotonic() >= until:
                return
            await asyncio.sleep(_LOOK_SECS)

    def hangs(self, what: str) -> None:
        """End a child that does not answer."""
        if self._child is not None:
            self._child.stop(signal.SIGKILL)
            self._ended(
                f"did not {what} within {self._program.timeout_secs:g} s and was killed: make it "
                "faster, or raise timeout_secs"
            )

    async def close(self) -> None:
        """End the child for good, and wait for its end."""
        self._closed = True
        child, self._child = self._child, None
        if child is not None:
            child.stop()
        self._folder.cleanup()
        if child is None:
            return
        if self.blocking:
            child.join()
        else:
            await asyncio.to_thread(child.join)

    # Messages.

    def _call_drain(self) -> None:
        """Called in the child's threads."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """Handle the messages that have arrived, and the child's end."""
        child = self._child
        if child is None:
            return
        messages = child.take()
        for message in messages:
            self._hear(message)
            if self._child is not child:
                break
        if self._child is child and child.end is not None:
            self._ended(child.end)
        if self._news is not None:
            self._news.set()
        if messages and self._loop is not None and not self._closed:
            self._owner._flush()

    def _hear(self, message: Any) -> None:
        command = message.get("command") if isinstance(message, dict) else None
        if command in _OF_TUPLES:
            try:
                self._owner._hear(command, message)
            except Exception as error:  # noqa: BLE001 - a grouping is user code, and may raise anything
                self._owner._report(error)
        elif command == "sync":
            self.syncs += 1
        elif command == "log":
            level = _LEVELS.get(message.get("level", 2), logging.INFO)
            self._log.log(level, "%s", message.get("msg"))
        elif command == "error":
            self.errors += 1
            self._owner._report(ShellError(f"{self._name} reports: {message.get('msg')}"))
        elif command == "metrics":
            self._measured |= dict(metrics_of(str(message.get("name")), message.get("params")))
        elif not (isinstance(message, dict) and "pid" in message):
            if self._child is not None:
                self._child.stop(signal.SIGKILL)
            self._ended(
                f"wrote {message!r:.200}, which is not a command of the multilang protocol: "
                "emit, ack, fail, sync, log, error or metrics"
            )

    def _ended(self, reason: str) -> None:
        self._child = None
        if self._closed:
            return
        now = time.monotonic()
        if now - self._began > _LONG_LIFE_SECS:
            self._delay = _FIRST_DELAY_SECS
        self._not_before = now + self._delay
        self._delay = min(2 * self._delay, _LONGEST_DELAY_SECS)
        self._trouble = ShellError(
            f"the program of {self._name} {reason}. Its unfinished tuples failed. It is started "
            "again; if it ends again, run the command by hand and look at its output"
        )
        self._owner._lose(self._trouble)
        if self._news is not None:
            self._news.set()
            self._owner._flush()
