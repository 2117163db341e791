"""Behaviour while Kafka is down: a process waits for it. A process that was running is re-executed
first.

A process that cannot reach its group for the session timeout has lost its tasks. Others may have
them. So it must continue from the last commit, as after a crash. But it does not exit: Kubernetes
would restart it with an increasing delay, even when Kafka is back. Instead it re-executes itself in
the same container with the same process ID, and waits until a broker responds.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from kstorm.errors import KstormError, NoBrokerError, TasksLostError
from kstorm.runtime.base import open_port
from kstorm.runtime.base.log import Logger
from kstorm.runtime.base.metrics import EXPOSITION, Exposition, Sample
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service.web_server import Connections, WebLimits, end_with_it, listen

BEGUN_AT: Final = time.time()
"""When this process was started or re-executed. A process that first waits for Kafka starts once."""
_ASK_SECS: Final = 2.0
_ASKS_PER_CLIENT: Final = 5
_SAY_AGAIN_SECS: Final = 60.0
_OPEN_FILES: Final = Path("/proc/self/fd")
_SINCE: Final = "KSTORM_KAFKA_AWAY_SINCE"
"""Variable that passes the start of the outage to the re-executed process."""
_TIMES: Final = "KSTORM_BEGUN_ANEW"
"""Variable that passes the number of re-executions."""


def restart_if_cut_off(error: Exception, settings: Settings, log: Logger) -> None:
    """Re-execute the process if it has lost its tasks or no broker responds. Otherwise do nothing.
    Thread-safe."""
    if not isinstance(error, TasksLostError) and _answers(settings):
        return
    log.warning("begins_anew", why=str(error))
    os.environ.setdefault(_SINCE, repr(time.time()))
    os.environ[_TIMES] = str(restart_count() + 1)
    _leave_nothing_open()
    open_port.pass_on()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - runs no shell


def exit_code_before_start(error: Exception) -> int:
    """Return 2 if only an operator can end the error, and 1 if another start may succeed."""
    return 1 if isinstance(error, NoBrokerError) else 2


def restart_count() -> int:
    """Return the number of times that this process was re-executed."""
    return int(os.environ.get(_TIMES, 0))


def _answers(settings: Settings) -> bool:
    """Return True if a broker responds, even if it refuses the login."""
    try:
        Admin(settings).partition_counts(_ASK_SECS)
    except KstormError as error:
        return not isinstance(error, NoBrokerError)
    return True


def _leave_nothing_open() -> None:
    """Make files and connections close on exec, as if the process ended. Some C libraries do not
    set this flag."""
    for file in list(_OPEN_FILES.iterdir()) if _OPEN_FILES.exists() else ():
        # the descriptor that listed the folder is already closed
        with suppress(OSError):
            if int(file.name) > 2:
                os.set_inheritable(int(file.name), False)


def wait_for_kafka(settings: Settings, kind: str, name: str, log: Logger) -> None:
    """Return when a broker of `settings` has responded. Until then, the pages report the outage.

    `name` is the topology's name. Raises `BrokerError` if the broker refuses the login,
    `SystemExit` if the process is stopped.
    """
    admin = Admin(settings)
    try:
        admin.partition_counts(_ASK_SECS)
    except NoBrokerError as error:
        since = float(os.environ.get(_SINCE, time.time()))
        asyncio.run(_Outage(settings, kind, name, since, str(error)).wait(admin, log))
        log.info("kafka_is_back", seconds=round(time.time() - since))
    os.environ.pop(_SINCE, None)


class _Outage:
    """The pages and log lines while Kafka is down."""

    def __init__(
        self, settings: Settings, kind: str, topology: str, since: float, error: str
    ) -> None:
        self._settings, self._since, self._error = settings, since, error
        self._is = {
            "topology": topology,
            "component": settings.component or kind,
            "instance": settings.instance,
        }
        self._page = {
            **self._is,
            "kind": kind,
            "pid": os.getpid(),
            "begun_at": BEGUN_AT,
            "tasks": [],
            "last_error": "",
            "kafka_away_since": since,
        }

    async def wait(self, admin: Admin, log: Logger) -> None:
        """Serve the pages until a broker responds."""
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            said, asks = -_SAY_AGAIN_SECS, 1
            while not stopped.is_set():
                if time.monotonic() - said > _SAY_AGAIN_SECS:
                    said = time.monotonic()
                    log.warning("kafka_is_away", says=self._says)
                # A client was seen to fail for minutes where a new one connected at once.
                if asks % _ASKS_PER_CLIENT == 0:
                    admin = Admin(self._settings)
                asks += 1
                try:
                    await asyncio.to_thread(admin.partition_counts, _ASK_SECS)
                except NoBrokerError as error:
                    self._error = str(error)
                else:
                    return
        raise SystemExit(0)

    async def _serve(self, stack: AsyncExitStack) -> None:
        exposition = Exposition({key: self._is[key] for key in ("topology", "component")})
        exposition.add(self._samples)
        application = web.Application()
        application.on_response_prepare.append(end_with_it)
        application.add_routes(
            [
                web.get("/livez", _answer(lambda: web.Response(text="ok\n"))),
                web.get(
                    "/readyz", _answer(lambda: web.Response(text=f"{self._says}\n", status=503))
                ),
                web.get(
                    "/metrics",
                    _answer(lambda: web.Response(body=exposition.text(), headers=EXPOSITION)),
                ),
                web.get(
                    "/status",
                    _answer(lambda: web.json_response({**self._page, "not_ready": self._says})),
                ),
            ]
        )
        runner = web.AppRunner(application)
        # The probes are answered until the service itself listens.
        stack.callback(open_port.hold)
        servers = await listen(
            runner, Connections(WebLimits()), self._settings.web_host, self._settings.web_port
        )
        stack.push_async_callback(runner.cleanup)
        for each in servers:
            stack.callback(each.close)

    @property
    def _says(self) -> str:
        since = datetime.fromtimestamp(self._since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"Kafka has been unreachable since {since}: {self._error}"

    def _samples(self) -> Iterable[Sample]:
        away = time.time() - self._since
        yield (
            "kafka_away_seconds",
            "Seconds for which no broker has answered this process",
            away,
            {},
        )


def _answer(page: Any) -> Any:
    async def handle(_request: web.Request) -> Any:
        return page()

    return handle
