"""A real database of Debian's for one test, in a temporary folder."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import pytest

from kstorm.dev.free_ports import reserve_port
from tests.debian import find_program

_START_SECS: Final = 60.0
_STOP_SECS: Final = 30.0


class DatabaseServer(AbstractContextManager["DatabaseServer"]):
    """Runs during its context, except between `kill` and `start`."""

    kind: ClassVar[str]
    package: ClassVar[str]
    crash: ClassVar[signal.Signals] = signal.SIGKILL
    user: ClassVar[str | None] = None
    """The user that runs it if this process is root."""

    def __init__(self, look: Callable[[], str | None]) -> None:
        found = find_program(self.package, look)
        if isinstance(found, str):
            if os.environ.get("CI"):
                pytest.fail(found)
            pytest.skip(found)
        self.program, self.port = found, reserve_port()
        self.as_user: dict[str, Any] = (
            {"user": self.user} if self.user and os.geteuid() == 0 else {}
        )

    @property
    def name(self) -> str:
        """Return the name for `tests.integration.databases`."""
        return f"{self.kind}:{self.port}"

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix=f"kstorm-{self.kind}-"))
        if self.user and self.as_user:
            shutil.chown(self.folder, self.user)
        self.make()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(_STOP_SECS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End it at once. Acknowledged data stays."""
        self._process.send_signal(self.crash)
        self._process.wait(_STOP_SECS)

    def start(self) -> None:
        """Start it with its earlier data."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, **self.as_user
            )
        deadline = time.monotonic() + _START_SECS
        while True:
            try:
                self.greet()
            except Exception as error:  # noqa: BLE001 - each client has errors of its own
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "log").read_text()
                    raise RuntimeError(f"{self.package} has not started: {error}\n{said}") from None
                time.sleep(0.1)
            else:
                return

    def make(self) -> None:
        """Create the data folder once."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def greet(self) -> None:
        """Raise an exception if it does not respond."""
        raise NotImplementedError
