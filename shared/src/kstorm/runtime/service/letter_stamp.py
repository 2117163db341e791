"""The stamp that a service puts on each of its dead letters: time, version and a unique ID."""

import time
import uuid
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from kstorm.core.dead_letters import LetterStamp
from kstorm.runtime.base.settings import Settings


def letter_stamper(settings: Settings) -> Callable[[], LetterStamp]:
    """Return a function that makes stamps with the current time."""
    try:
        release = f"kstorm {version('kstorm')}"
    except PackageNotFoundError:
        # running from source
        release = "kstorm"
    return partial(
        _stamp, f"{settings.topology_id}, {release}" if settings.topology_id else release
    )


def _stamp(code: str) -> LetterStamp:
    return LetterStamp(at=int(time.time() * 1000), version=code, unique=uuid.uuid4().hex)
