"""A service's web pages: `/livez`, `/readyz`, `/metrics`, `/status` and `/topology`. The pages of
state are in `state_pages`."""

from typing import Any

import msgspec

from kstorm.introspection.outline_builder import outline_of
from kstorm.runtime.base.metrics import EXPOSITION
from kstorm.runtime.service.app import ChannelApp
from kstorm.runtime.service.driver import Driver


def add_pages(app: ChannelApp, driver: Driver[Any]) -> None:
    """Add the pages to the app.

    Alive means that the event loop runs. Ready means that the process is in the group, every task
    is recovered, and offsets can be stored. A deactivated spout is ready, with a remark, because an
    unready pod would block rollouts and node drains.
    """

    @app.page("/livez")  # type: ignore[untyped-decorator]
    async def livez(view: Any, _request: Any) -> Any:
        return view.text(
            "ok\n" if driver.alive else "the event loop is stuck\n",
            status=200 if driver.alive else 503,
        )

    @app.page("/readyz")  # type: ignore[untyped-decorator]
    async def readyz(view: Any, _request: Any) -> Any:
        problem = driver.not_ready
        return view.text(f"{problem or driver.remark or 'ok'}\n", status=503 if problem else 200)

    @app.page("/metrics")  # type: ignore[untyped-decorator]
    async def metrics(view: Any, _request: Any) -> Any:
        return view.bytes(driver.exposition.text(), headers=EXPOSITION)

    @app.page("/status")  # type: ignore[untyped-decorator]
    async def status(view: Any, _request: Any) -> Any:
        return view.json({**driver.status(), "not_ready": driver.not_ready})

    told = msgspec.json.encode(outline_of(driver.topology))

    @app.page("/topology")  # type: ignore[untyped-decorator]
    async def topology(view: Any, _request: Any) -> Any:
        return view.bytes(told, headers={"Content-Type": "application/json"})
