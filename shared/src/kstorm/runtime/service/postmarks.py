"""What a service puts on each dead letter that leaves it: the time, its code, and a word of its own."""

import time
import uuid
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from kstorm.core.dead_letters import Postmark
from kstorm.runtime.service.settings import Settings


def postmarks(settings: Settings) -> Callable[[], Postmark]:
    """Makes them, each with the time at which it was asked."""
    try:
        release = f"kstorm {version('kstorm')}"
    except PackageNotFoundError:  # it is run from its source
        release = "kstorm"
    return partial(
        _postmark, f"{settings.topology_id}, {release}" if settings.topology_id else release
    )


def _postmark(code: str) -> Postmark:
    return Postmark(at=int(time.time() * 1000), version=code, unique=uuid.uuid4().hex)
