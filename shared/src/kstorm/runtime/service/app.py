"""The Faust part of a service: an app whose agents read from a channel, its worker, and its web
pages.

Faust runs the process: the agent, the web server, signals, an orderly shutdown. It does not connect
to Kafka. Instead a `TaskConsumer` fills the agent's channel. This takes a seventh of the CPU time
per frame, causes no duplicates in an orderly rebalance, and leaves commits to kstorm. docs/adr/0001
has the measurements.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import faust
import mode
from faust.app.base import BootStrategy

from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.web_server import PageServer, WebLimits

_CANCEL_SECONDS = 1.0


class ChannelBoot(BootStrategy):  # type: ignore[misc]
    """Starts sensors, web server and agents, but nothing that connects to a broker."""

    enable_kafka = False


class ChannelApp(faust.App):  # type: ignore[misc]
    """A Faust app without Kafka."""

    BootStrategy = ChannelBoot
    web_limits = WebLimits()

    def _new_web(self) -> PageServer:
        return PageServer(self, self.web_limits)

    async def on_started(self) -> None:
        # Faust's own rebalance would do this.
        self.flow_control.resume()
        await super().on_started()


class Service(Protocol):
    """The tasks of one component in this process. The app calls the methods in this order."""

    async def start(self, feed: Callable[[Any], None]) -> None:
        """Start. `feed(item)` puts an item into the agent's channel."""
        ...

    async def handle(self, item: Any) -> None:
        """Process one item. Called by the agent, for one item at a time."""
        ...

    async def stop(self) -> None:
        """Finish the work in flight and close every task. The agent still runs."""
        ...


def make_app(name: str, settings: Settings, service: Service) -> ChannelApp:
    """Return the app of a service. Its agent passes every item to the service. An error there ends
    the process."""
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
    # unbounded: the consumer limits the work in flight by pausing
    channel = app.channel(maxsize=0)

    @app.agent(channel, name=f"{name}.tasks")  # type: ignore[untyped-decorator]
    async def tasks(stream: Any) -> None:
        async for item in stream.noack():
            await service.handle(item)

    @app.task  # type: ignore[untyped-decorator]
    async def start() -> None:
        # The agent reads its own clone of the channel.
        (reader,) = channel._subscribers
        await service.start(reader.queue.put_nowait)

    return app


class ServiceWorker(faust.Worker):  # type: ignore[misc]
    """On SIGTERM or SIGINT, stops the service while the agent still runs, and stops Faust
    afterwards."""

    def __init__(self, app: ChannelApp, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            app, loglevel="WARN", redirect_stdouts=False, loop=loop, override_logging=False
        )
        self.spinner = None
        self._service = service
        self._ending: asyncio.Task[None] | None = None

    async def _stop_on_signal(self, signal: Any) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._service.stop())
        await self._ending
        await super()._stop_on_signal(signal)

    def _gather_all(self) -> None:
        # Faust would wait for running tasks, one second at a time. But a pod's successor only
        # starts once this process has exited, and after the service has stopped no important task
        # is left.
        for task in asyncio.all_tasks(self.loop):
            task.cancel()

    async def _sentinel_task(self) -> None:
        if cancelled := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(cancelled, timeout=_CANCEL_SECONDS)


Page = Callable[[Any, Any], Awaitable[Any]]


def run_worker(app: ChannelApp, service: Service, loop: asyncio.AbstractEventLoop) -> None:
    """Run the service until it is stopped. Raises `SystemExit`."""
    ServiceWorker(app, service, loop).execute_from_commandline()
