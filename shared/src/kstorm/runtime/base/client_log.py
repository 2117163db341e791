"""The logger of the Kafka clients. It logs messages of the same kind at most once in five
seconds."""

import logging
import time
from typing import Final

CLIENT_LOG: Final = logging.getLogger("librdkafka")
_CALM_SECONDS: Final = 5.0


class _Calm(logging.Filter):
    """Limits repeated messages: librdkafka logs the same twenty times a second while a broker is
    away."""

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


CLIENT_LOG.addFilter(_Calm())
