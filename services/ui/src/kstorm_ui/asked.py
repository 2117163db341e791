"""What is asked only when somebody looks: of Kafka and ZooKeeper, beside the page's loop, once for all who look at that time."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any, Final

from kstorm.errors import KstormError

_KEPT_SECS: Final = 5.0


class Asked:
    """Answers by their names, each kept for five seconds; a question that is under way is waited for, not asked again."""

    def __init__(self, at_once: int) -> None:
        """`at_once`: how many questions are asked at a time, in threads of their own: no look at what runs waits for them."""
        self._asked: dict[object, tuple[float, asyncio.Future[Any]]] = {}
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="asking")
        self._true_since = -inf

    def forget(self) -> None:
        """Something was changed: what was asked before may not be so any more. From any thread."""
        self._true_since = time.monotonic()

    async def answer(self, name: object, ask: Callable[[], Any]) -> tuple[Any, str]:
        """The answer, and why there is none: empty if there is one."""
        now = time.monotonic()
        self._asked = {
            key: each
            for key, each in self._asked.items()
            if each[0] >= self._true_since and (now - each[0] < _KEPT_SECS or not each[1].done())
        }
        if name not in self._asked:
            self._asked[name] = now, asyncio.get_running_loop().run_in_executor(self._pool, ask)
        try:
            return await asyncio.shield(self._asked[name][1]), ""
        except KstormError as error:
            return None, str(error)
