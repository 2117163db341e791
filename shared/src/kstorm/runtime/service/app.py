"""The Faust part of a service: an app whose agent does the work of the component, its worker, and
its web pages.

Faust runs the process: the agent, the web server, signals, an orderly shutdown. It does not connect
to Kafka. A `TaskConsumer` passes the polled records to the engine. The engine decides what to run
next, and the agent runs it. Compared with Faust's own consumer, this takes a seventh of the CPU
time per frame. It also causes no duplicates in an orderly rebalance, and leaves commits to kstorm.
docs/development/adr/0001 has the measurements.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.base.skipped_imports import skipped_imports

with skipped_imports("yaml"):  # for a codec that kstorm does not use
    import faust
    import mode
    from faust.app.base import BootStrategy

from kstorm.runtime.faust_private import AppWithOwnWeb, OrderlyWorker
from kstorm.runtime.service.web_server import PageServer, WebLimits


class ChannelBoot(BootStrategy):  # type: ignore[misc]
    """Starts sensors, web server and agents, but nothing that connects to a broker."""

    enable_kafka = False


class ChannelApp(AppWithOwnWeb):
    """A Faust app that does not use Kafka."""

    BootStrategy = ChannelBoot
    web_limits = WebLimits()

    def make_web(self) -> PageServer:
        return PageServer(self, self.web_limits)

    async def on_started(self) -> None:
        # Faust's own rebalance would do this.
        self.flow_control.resume()
        await super().on_started()


class WorkChannel(faust.Channel):  # type: ignore[misc]
    """A channel whose reader uses the queue with which the channel was created.

    Faust's own channels give each reader a separate queue, which has no public access.
    """

    def clone(self, *, is_iterator: bool | None = None, **options: Any) -> Any:
        return super().clone(is_iterator=is_iterator, **{"queue": self.queue, **options})


class Service(Protocol):
    """The tasks of one component in this process. The app calls the methods in this order."""

    async def start(self, feed: Callable[[Any], None]) -> None:
        """Start. `feed(work)` gives work to the agent."""

    async def handle(self, work: Any) -> None:
        """Do a piece of work. The agent calls this for one piece at a time."""

    async def stop(self) -> None:
        """Finish the work in flight and close every task. The agent still runs during this call."""


def make_app(name: str, settings: Settings, service: Service) -> ChannelApp:
    """Return the app of a service. Its agent does the service's work. An error there ends the
    process."""
    app = ChannelApp(
        name,
        broker="kafka://127.0.0.1:1",  # required by Faust, never connected to
        store="rocksdb://",
        datadir=Path(settings.data_dir),
        web_bind=settings.web_host,
        web_host=settings.web_host,
        web_port=settings.web_port,
        agent_supervisor=mode.CrashingSupervisor,
    )
    # The channel contains only work that the engine wants to run now, because input waits in the
    # engine.
    channel = WorkChannel(app, maxsize=0)

    @app.agent(channel, name=f"{name}.tasks")  # type: ignore[untyped-decorator]
    async def tasks(stream: Any) -> None:
        async for work in stream.noack():
            await service.handle(work)

    @app.task  # type: ignore[untyped-decorator]
    async def start() -> None:
        await service.start(channel.queue.put_nowait)

    return app


class ServiceWorker(OrderlyWorker):
    """On SIGTERM or SIGINT, stops the service while the agent still runs, and stops Faust
    afterwards."""

    def __init__(self, app: ChannelApp, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(app, loop, loglevel="WARN", redirect_stdouts=False, override_logging=False)
        self._service = service

    async def before_stop(self) -> None:
        await self._service.stop()


Page = Callable[[Any, Any], Awaitable[Any]]


def run_worker(app: ChannelApp, service: Service, loop: asyncio.AbstractEventLoop) -> None:
    """Run the service until it is stopped. Raises `SystemExit`."""
    ServiceWorker(app, service, loop).execute_from_commandline()
