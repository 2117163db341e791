"""Structured logs: one JSON object per line, or lines for people."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

from kstorm.printable import printable
from kstorm.runtime.base.skipped_imports import skipped_imports

with skipped_imports("rich"):  # for tracebacks that kstorm does not render
    import structlog

Logger = Any
"""A structlog logger: `log.info("event", key=value)`."""


def configure(level: str = "INFO", form: str = "json", **bound: object) -> Logger:
    """Configure logging for the process. Return its logger, with `bound` on every line.

    Libraries' records (Faust, kazoo, aiohttp) use the same renderer, from WARNING up.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty())
    )
    # The JSON encoder already escapes control characters.
    rendering: list[Any] = [
        structlog.processors.format_exc_info,
        *([] if form == "json" else [_printable]),
        renderer,
    ]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level)),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, getattr(logging, level)))
    return structlog.get_logger(**bound)


def _printable(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make strings printable. The console renderer shows the repr of all other values, which has no
    control characters."""
    return {
        name: printable(value) if isinstance(value, str) else value for name, value in event.items()
    }
