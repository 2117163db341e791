"""A real PostgreSQL of a test's own, Debian's, in a folder that goes with it."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pg8000.dbapi
import pytest

from kstorm.local.ports import reserve_port
from tests.debian import find_program
from tests.integration.postgres import SUPERUSER, connect

_START_SECS: Final = 60.0
_STOP_SECS: Final = 30.0


class PostgresServer(AbstractContextManager["PostgresServer"]):
    """Runs while the block does. As root it runs as the user `postgres`, since it refuses root."""

    def __init__(self) -> None:
        programs = find_program("postgresql", _newest)
        if isinstance(programs, str):
            if os.environ.get("CI"):
                pytest.fail(programs)
            pytest.skip(programs)
        self._programs, self.port = programs, reserve_port()
        self._user: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}

    def __enter__(self) -> "PostgresServer":
        self._folder = Path(tempfile.mkdtemp(prefix="kstorm-postgres-"))
        if self._user:
            shutil.chown(self._folder, "postgres")
        data = self._folder / "data"
        make = [self._programs / "initdb", "-D", data, "-U", SUPERUSER, "-A", "trust", "--no-sync", "-E", "UTF8"]
        run = partial(subprocess.run, cwd=self._folder, check=True, capture_output=True, **self._user)
        run([str(part) for part in make])
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    *("-D", str(data), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1"),
                    *("-c", "unix_socket_directories=", "-c", "fsync=off"),
                ],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                **self._user,
            )
        self._await_start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_STOP_SECS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_start(self) -> None:
        deadline = time.monotonic() + _START_SECS
        while True:
            try:
                connect(self.port).close()
            except (TimeoutError, pg8000.dbapi.Error, OSError) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self._folder / "log").read_text()
                    raise RuntimeError(f"PostgreSQL has not started: {error}\n{said}") from None
                time.sleep(0.1)
            else:
                return


def _newest() -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    return str(found[-1]) if found else None
