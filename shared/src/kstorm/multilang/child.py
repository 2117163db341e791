"""A program that runs as a child process: its threads, its pipes and its end.

Three threads per child keep the event loop free: one writes messages, one reads them, and one
reads the standard error. Both directions are bounded. A child that does not read is noticed by
`unwritten`, and a child that floods is stopped by its full pipe.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Any, Final, cast

from kstorm import die_with_parent
from kstorm.errors import ConfigError
from kstorm.multilang.codecs import Codec, GarbageError

_MOST_UNREAD: Final = 1000
"""Messages of the child that may wait for the task."""
_LAST_LINES: Final = 20
"""Lines of the standard error in the message about the child's end."""
_END_SECS: Final = 2.0
"""Time in which a child must end after it was asked to, or after it closed its output."""
_LOOK_SECS: Final = 0.01


class Child:
    """One life of a program. Its methods are for the task's thread, and do not block."""

    def __init__(
        self,
        command: Sequence[str],
        codec: Codec,
        *,
        env: Mapping[str, str],
        cwd: str | None,
        on_news: Callable[[], None],
        on_line: Callable[[str], None],
    ) -> None:
        """`on_news` is called in another thread when there is something to `take`, when most of the
        messages are written, and at the end. `on_line` gets each line of the standard error."""
        program = command[0]
        if cwd is not None and "/" in program:
            program = str(Path(cwd) / program)
        found = shutil.which(program, path=env.get("PATH"))
        if found is None:
            raise ConfigError(
                f"the command {command[0]!r} does not exist or is not executable: install it on "
                "every machine (in the image), or give its path"
            )
        self._codec, self._on_news, self._on_line = codec, on_news, on_line
        self._changed = Condition()
        self._unwritten: deque[bytes] = deque()
        self._unread: list[Any] = []
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._stopped = False
        self._end: str | None = None
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())),
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        self._threads = [
            Thread(target=work, name=f"kstorm-shell-{name}", daemon=True)
            for name, work in (("in", self._write), ("out", self._read), ("err", self._listen))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def unwritten(self) -> int:
        """Number of messages that the child has not taken yet."""
        return len(self._unwritten)

    @property
    def end(self) -> str | None:
        """The reason of the child's end, or None while it lives or has messages to `take`."""
        return None if self._unread else self._end

    def send(self, message: Any) -> None:
        """Send a message. Raises `TypeError` if it cannot be encoded."""
        encoded = self._codec.encode(message)
        with self._changed:
            self._unwritten.append(encoded)
            if len(self._unwritten) == 1:  # otherwise the thread is busy writing
                self._changed.notify_all()

    def take(self) -> list[Any]:
        """Return the messages that have arrived."""
        with self._changed:
            found, self._unread = self._unread, []
            self._changed.notify_all()
        return found

    def wait(self, seconds: float) -> None:
        """Block until there is something to take, until the child's end, or for `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._unread or self._end is not None, seconds)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """End the child and its own children. The thread that reads waits for it."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._signal(sign)

    def join(self) -> None:
        """Block until the child and its threads have ended."""
        for thread in self._threads:
            thread.join(2 * _END_SECS)

    def _signal(self, sign: signal.Signals) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, sign)

    # Threads.

    def _write(self) -> None:
        stdin = cast("IO[bytes]", self.process.stdin)
        with suppress(OSError, ValueError):
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._unwritten or self._stopped or self._end is not None
                    )
                    if self._stopped or self._end is not None:
                        break
                    several = list(self._unwritten)
                stdin.write(b"".join(several))
                stdin.flush()
                with self._changed:
                    for _ in several:
                        self._unwritten.popleft()
                self._on_news()
        with suppress(OSError, ValueError):
            stdin.close()

    def _read(self) -> None:
        stdout = cast("IO[bytes]", self.process.stdout)
        reason = ""
        try:
            for messages in self._codec.read(stdout):
                if not self._put(messages):
                    break
        except GarbageError as error:
            reason = str(error)
        except (OSError, ValueError):
            pass
        reason = self._reap(reason)
        with self._changed:
            self._end = reason
            self._changed.notify_all()
        with suppress(OSError, ValueError):
            stdout.close()
        self._on_news()

    def _put(self, messages: list[Any]) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._unread) < _MOST_UNREAD or self._stopped)
            if self._stopped:
                return False
            first = not self._unread
            self._unread += messages
            self._changed.notify_all()
        if first:
            self._on_news()
        return True

    def _reap(self, reason: str) -> str:
        """Wait for the child's end, and return the reason."""
        if reason:
            self._signal(signal.SIGKILL)
        if not self._ends_within(_END_SECS):
            reason = reason or "closed its standard output"
        self._signal(signal.SIGKILL)  # also to the processes that it leaves behind
        code = self.process.wait()
        if reason:
            return reason
        self._threads[2].join(_END_SECS)
        what = f"was killed by {_name(-code)}" if code < 0 else f"ended with exit code {code}"
        last = " | ".join(self._last_lines)
        return f"{what}{last and f'; its last lines: {last}'}"

    def _ends_within(self, seconds: float) -> bool:
        """Wait for the child's end without reaping it, so that its number stays its own."""
        until = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, self.process.pid, flags) is None:
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_SECS)
        return True

    def _listen(self) -> None:
        stderr = cast("IO[bytes]", self.process.stderr)
        with suppress(OSError, ValueError):
            while line := stderr.readline(4096):
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._last_lines.append(text)
                    self._on_line(text)
            stderr.close()


def _name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
