"""The Faust side of a service: an app whose agents read from a channel, its worker, its web pages.

Faust runs the process: the agent, the web server, signals, an orderly end. It does not talk to Kafka: a `TaskConsumer`
feeds the agent's channel, for a seventh of the CPU a frame, without duplicates when tasks move in an orderly way, and with
commits under our control (docs/adr/0001 has the measurements).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import faust
import mode
from faust.app.base import BootStrategy

from kstorm.runtime.service.settings import Settings
from kstorm.runtime.service.web_server import PageServer, WebLimits

_CANCEL_SECONDS = 1.0


class ChannelBoot(BootStrategy):  # type: ignore[misc]
    """Starts sensors, web server and agents, and nothing that connects to a broker."""

    enable_kafka = False


class ChannelApp(faust.App):  # type: ignore[misc]
    """A Faust app without Kafka."""

    BootStrategy = ChannelBoot
    web_limits = WebLimits()

    def _new_web(self) -> PageServer:
        return PageServer(self, self.web_limits)

    async def on_started(self) -> None:
        """Opens the flow of events, which elsewhere Faust's own rebalance does."""
        self.flow_control.resume()
        await super().on_started()


class Service(Protocol):
    """Runs the tasks of one component in this process; the app calls it in this order."""

    async def start(self, feed: Callable[[Any], None]) -> None:
        """Begin; `feed(item)` puts an item into the agent's channel."""
        ...

    async def handle(self, item: Any) -> None:
        """Work on one item: called by the agent, one at a time."""
        ...

    async def stop(self) -> None:
        """Finish what is in flight and let go of every task. The agent still runs."""
        ...


def make_app(name: str, settings: Settings, service: Service) -> ChannelApp:
    """The app of a service. Its agent hands every item to the service; an error there ends the process."""
    app = ChannelApp(
        name,
        broker="kafka://127.0.0.1:1",  # Faust wants one named; nothing ever connects
        store="rocksdb://",
        datadir=Path(settings.data_dir),
        web_bind=settings.web_host,
        web_host=settings.web_host,
        web_port=settings.web_port,
        agent_supervisor=mode.CrashingSupervisor,
    )
    channel = app.channel(maxsize=0)  # the consumer bounds what is in flight, by pausing

    @app.agent(channel, name=f"{name}.tasks")  # type: ignore[untyped-decorator]
    async def tasks(stream: Any) -> None:
        async for item in stream.noack():
            await service.handle(item)

    @app.task  # type: ignore[untyped-decorator]
    async def start() -> None:
        (reader,) = channel._subscribers  # the agent reads its own clone of the channel
        await service.start(reader.queue.put_nowait)

    return app


class ServiceWorker(faust.Worker):  # type: ignore[misc]
    """On SIGTERM or SIGINT lets the service finish while the agent still runs, and only then stops Faust."""

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
        """Faust waits a second for what still runs, and then another. A pod's successor is not started before the process has
        ended, and once the service has stopped, nothing runs that matters."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()

    async def _sentinel_task(self) -> None:
        if cancelled := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(cancelled, timeout=_CANCEL_SECONDS)


Page = Callable[[Any, Any], Awaitable[Any]]


def run_worker(app: ChannelApp, service: Service, loop: asyncio.AbstractEventLoop) -> None:
    """Runs the service until it is told to stop. Raises `SystemExit`."""
    ServiceWorker(app, service, loop).execute_from_commandline()
