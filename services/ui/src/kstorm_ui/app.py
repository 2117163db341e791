"""The web application: routes to pages, rendered from the collector's memory and templates without
waiting for a source."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from kstorm_ui.pages import actions as actions_pages
from kstorm_ui.pages import (
    audit,
    events,
    find,
    letters,
    login,
    logs,
    message,
    records,
    sources,
    topologies,
    topology,
    why,
)
from kstorm_ui.security import Guard, who_asks
from kstorm_ui.site import HERE, Site


def make_app(site: Site, token: str = "", user_header: str = "") -> ASGIApp:
    """Build the application. It runs the collector for as long as it runs itself."""
    collector = site.collector

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(collector.run())
        yield
        await collector.stop()
        await asyncio.to_thread(site.background.close)
        site.close()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    routes = [
        *login.routes(site, token),
        *topologies.routes(site),
        *topology.routes(site),
        *sources.routes(site),
        *letters.routes(site),
        *events.routes(site),
        *find.routes(site),
        *records.routes(site),
        *audit.routes(site),
        *why.routes(site),
        *message.routes(site),
        *actions_pages.routes(site, partial(who_asks, user_header=user_header, token=token)),
        *logs.routes(site),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    errors: Any = {404: partial(login.not_found, site)}
    return Guard(
        Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors), token, user_header
    )
