"""Kafka is away: a process waits for it, and one that was at work begins anew in its place.

A process that cannot hear from its group for a session has lost its tasks: others may have them. So it goes on as after its death,
from what is committed. But it does not end: Kubernetes would start it again, count that, and wait longer from time to time, also
when Kafka is back. It loads itself anew, as the same process in the same container, and waits until a broker answers.
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
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service.log import Logger
from kstorm.runtime.service.metrics import EXPOSITION, Exposition, Sample
from kstorm.runtime.service.settings import Settings
from kstorm.runtime.service.web_server import Connections, WebLimits, end_with_it, listen

_ASK_SECS: Final = 2.0
_SAY_AGAIN_SECS: Final = 60.0
_OPEN_FILES: Final = Path("/proc/self/fd")
_SINCE: Final = "KSTORM_KAFKA_AWAY_SINCE"
"""Tells the process that begins anew since when Kafka is away."""
_TIMES: Final = "KSTORM_BEGUN_ANEW"
"""Tells it how often that was."""


def begin_anew_if_cut_off(error: Exception, settings: Settings, log: Logger) -> None:
    """Does not return if the process has lost its tasks, or no broker answers. Callable from any thread."""
    if not isinstance(error, TasksLostError) and _answers(settings):
        return
    log.warning("begins_anew", why=str(error))
    os.environ.setdefault(_SINCE, repr(time.time()))
    os.environ[_TIMES] = str(times_begun_anew() + 1)
    _leave_nothing_open()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - there is no shell in it


def times_begun_anew() -> int:
    """How often this process has begun anew."""
    return int(os.environ.get(_TIMES, 0))


def _answers(settings: Settings) -> bool:
    """Whether a broker does, be it that it lets nobody in."""
    try:
        Admin(settings).partition_counts(_ASK_SECS)
    except KstormError as error:
        return not isinstance(error, NoBrokerError)
    return True


def _leave_nothing_open() -> None:
    """Files and connections end with what is replaced, as they would with a process; libraries in C do not all see to that."""
    for file in list(_OPEN_FILES.iterdir()) if _OPEN_FILES.exists() else ():
        with suppress(OSError):  # that of the folder itself is closed by now
            if int(file.name) > 2:
                os.set_inheritable(int(file.name), False)


def wait_for_kafka(settings: Settings, kind: str, name: str, log: Logger) -> None:
    """Returns when a broker of `settings` has answered; meanwhile the pages say that it is away. `name` is the topology's. Raises
    `BrokerError` if it lets nobody in, `SystemExit` if the process is told to stop."""
    admin = Admin(settings)
    try:
        admin.partition_counts(_ASK_SECS)
    except NoBrokerError as error:
        since = float(os.environ.get(_SINCE, time.time()))
        asyncio.run(_Outage(settings, kind, name, since, str(error)).wait(admin, log))
        log.info("kafka_is_back", seconds=round(time.time() - since))
    os.environ.pop(_SINCE, None)


class _Outage:
    """What is said while Kafka is away."""

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
            "begun_at": time.time(),
            "tasks": [],
            "last_error": "",
            "kafka_away_since": since,
        }

    async def wait(self, admin: Admin, log: Logger) -> None:
        """Serves the pages until a broker answers."""
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            said = -_SAY_AGAIN_SECS
            while not stopped.is_set():
                if time.monotonic() - said > _SAY_AGAIN_SECS:
                    said = time.monotonic()
                    log.warning("kafka_is_away", says=self._says)
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
        server = await listen(
            runner, Connections(WebLimits()), self._settings.web_host, self._settings.web_port
        )
        stack.push_async_callback(runner.cleanup)
        stack.callback(server.close)

    @property
    def _says(self) -> str:
        since = datetime.fromtimestamp(self._since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"Kafka is away since {since}: {self._error}"

    def _samples(self) -> Iterable[Sample]:
        away = time.time() - self._since
        yield (
            "kafka_away_seconds",
            "Seconds since no broker answers this process, which waits",
            away,
            {},
        )


def _answer(page: Any) -> Any:
    async def handle(_request: web.Request) -> Any:
        return page()

    return handle
