"""A running word count and its input."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.engine import Engine
from tests.integration.test_exactly_once import check_exactly

_SHARE = 60
_PAUSE_SECS = 0.5


class Words:
    """Feeds a word count and checks its result."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._text: list[str] = []

    def feed(self) -> None:
        """Produce more text."""
        more = [
            f"one two w{number % 7}" for number in range(len(self._text), len(self._text) + _SHARE)
        ]
        self.engine.produce(more)
        self._text += more

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Feed the word count during the context."""
        enough = threading.Event()

        def feed() -> None:
            while not enough.wait(_PAUSE_SECS):
                self.feed()

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            yield
        finally:
            enough.set()
            feeding.join()

    def await_progress(self) -> None:
        """Wait until more messages are finished."""
        done = sum(self.engine.offsets().values())
        self.engine.until(lambda: sum(self.engine.offsets().values()) > done, 60, "more is done")

    def await_done(self) -> None:
        self.engine.await_done("sentences")

    def check(self) -> None:
        """Assert that each word was counted and written once."""
        check_exactly(self.engine, self._text)
