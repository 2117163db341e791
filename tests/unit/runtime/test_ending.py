"""A process exits as soon as its service has stopped, because a pod's successor waits for it."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kstorm.dev.free_ports import reserve_port
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import ServiceWorker, make_app


class Stopped:
    """A service that is stopped right after its start, and leaves an endless task behind."""

    worker: ServiceWorker
    left: "asyncio.Task[Any]"
    has_stopped = False

    async def start(self, feed: Callable[[Any], None]) -> None:
        self.left = asyncio.ensure_future(asyncio.Event().wait())
        self.worker._schedule_shutdown(signal.SIGTERM)

    async def handle(self, item: Any) -> None:
        """Does nothing."""

    async def stop(self) -> None:
        self.has_stopped = True


def test_a_process_whose_service_has_stopped_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faust would sleep for a second, and for another one if tasks remain."""
    loop, service, slept, sleep = uvloop.new_event_loop(), Stopped(), list[float](), asyncio.sleep

    async def noted(seconds: float, *result: Any) -> Any:
        if service.has_stopped and seconds:
            slept.append(seconds)
        return await sleep(seconds, *result)

    monkeypatch.setattr(asyncio, "sleep", noted)
    asyncio.set_event_loop(loop)
    settings = Settings(
        topology="a:b", data_dir=tmp_path, web_host="127.0.0.1", web_port=reserve_port()
    )
    service.worker = ServiceWorker(make_app("t-sink", settings, service), service, loop)
    try:
        with pytest.raises(SystemExit) as ended:
            service.worker.execute_from_commandline()
    finally:
        asyncio.set_event_loop(None)
    assert not ended.value.code
    assert service.has_stopped
    assert service.left.cancelled()
    assert slept == []
