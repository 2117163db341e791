"""Run a service: read and check the settings, build the app, run it until it ends."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import uvloop

from kstorm.errors import ConfigError, KstormError
from kstorm.printable import printable
from kstorm.runtime.base import log as logs
from kstorm.runtime.base.settings import Settings, from_environment
from kstorm.runtime.kafka.own_topic_creation import create_own_topics
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.service.app import make_app, run_worker
from kstorm.runtime.service.driver import Driver
from kstorm.runtime.service.outage import (
    exit_code_before_start,
    restart_if_cut_off,
    wait_for_kafka,
)
from kstorm.runtime.service.pages import add_pages
from kstorm.runtime.service.state_pages import add_state_pages
from kstorm.topology import Topology

MakeDriver = Callable[[Settings, Topology, logs.Logger], Driver[Any]]
"""Builds the driver of a service. Raises `KstormError` if the settings do not fit the topology."""

_COLLECT_AFTER: Final = (10_000, 20, 50)
"""Thresholds of the garbage collector. Python's own, 700 new objects, make it visit the tuples in
hand dozens of times during a poll. These have no cycles, so it finds nothing."""


def run(kind: str, make_driver: MakeDriver) -> NoReturn:
    """Run the service `kind` until it is stopped. A user error prints one line and exits with code
    2. If Kafka does not respond during the start, the code is 1."""
    try:
        settings = from_environment()
        topology = settings.load_topology()
        log = logs.configure(
            settings.log_level,
            settings.log_format,
            service=kind,
            component=settings.component or kind,
        )
        _make_data_dir(settings)
        wait_for_kafka(settings, kind, topology.name, log)
        driver = _make_driver(settings, topology, log, make_driver)
    except KstormError as error:
        print(f"kstorm-{kind}: {printable(str(error))}", file=sys.stderr)
        raise SystemExit(exit_code_before_start(error)) from None
    # libuv only resolves host names there, and would start four threads.
    os.environ.setdefault("UV_THREADPOOL_SIZE", "1")
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = make_app(f"{topology.name}-{settings.component or kind}", settings, driver)
    driver.use_app(app)
    add_pages(app, driver)
    add_state_pages(app, driver)
    set_up_garbage_collection()
    run_worker(app, driver, loop)
    raise SystemExit(0)


def set_up_garbage_collection() -> None:
    """Call once everything is created that lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _make_driver(
    settings: Settings, topology: Topology, log: logs.Logger, make_driver: MakeDriver
) -> Driver[Any]:
    try:
        topics = ensure_topics(topology, settings)
        if settings.end_partitions:
            create_own_topics(topology, settings, settings.end_partitions)
        driver = make_driver(settings, topology, log)
    except KstormError as error:
        restart_if_cut_off(error, settings, log)
        raise
    driver.topics = topics.all
    return driver


def _make_data_dir(settings: Settings) -> None:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"KSTORM_DATA_DIR is {str(settings.data_dir)!r}, which cannot be used: {error.strerror}"
        ) from None
