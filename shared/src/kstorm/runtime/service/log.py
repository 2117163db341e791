"""Structured logs: one JSON object a line, or lines for people."""

import logging
import sys
import time
from typing import Any

import structlog

CLIENT_LOG = logging.getLogger("librdkafka")
"""Where the Kafka clients write; the same complaint is let through once in five seconds."""

Logger = Any
"""A structlog logger: `log.info("event", key=value)`."""


def configure(level: str = "INFO", form: str = "json", **bound: object) -> Logger:
    """Sets up logging for the process and returns its logger with `bound` on every line.

    Libraries' records (Faust, kazoo, aiohttp) pass through the same renderer, from WARNING up.
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
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level)),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, getattr(logging, level)))
    return structlog.get_logger(**bound)


class _Calm(logging.Filter):
    """librdkafka repeats itself twenty times a second while a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.getMessage().split("[", 1)[0]
        now = time.monotonic()
        if now - self._last.get(kind, -_CALM_SECONDS) < _CALM_SECONDS:
            return False
        self._last[kind] = now
        return True


_CALM_SECONDS = 5.0
CLIENT_LOG.addFilter(_Calm())
