"""Tables on a real disk that recover from a real changelog."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from kstorm.core.engine.effects import ApplyToStore, Changes, Transact
from kstorm.core.task_state import check_pair
from kstorm.dev.servers import EmbeddedKafka
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.service.app import make_app
from kstorm.runtime.store.tables import RecoveringTable
from kstorm.runtime.store.task_store import TaskStore


def make_table(
    kafka: EmbeddedKafka,
    folder: Path,
    changelog: str,
    now: Callable[[], float] = time.time,
    **settings: Any,
) -> RecoveringTable:
    """Return a stateful bolt's table with one partition, in its own process.

    `settings` are those of the process.
    """
    made = Settings(topology="a:b", bootstrap_servers=kafka.bootstrap, data_dir=folder, **settings)
    service: Any = None
    app = make_app("tables", made, service)
    return RecoveringTable(
        app, "count-state", changelog, 1, made, structlog.get_logger(), check_pair, now
    )


async def checkpoint(
    table: RecoveringTable,
    writer: Any,
    changelog: str,
    changes: Changes,
    offsets: dict[int, int],
    now: Callable[[], float],
) -> None:
    """Write a checkpoint as a bolt's driver does."""
    store = TaskStore(table, changelog, structlog.get_logger(), now)
    store.lend(writer)
    effect = Transact(changes, offsets)
    store.keep(ApplyToStore(changes, await store.transact(effect)))
