"""A word count at work, and the text that it was given."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.engine import Engine
from tests.integration.test_exactly_once import check_exactly

_SHARE = 60
_PAUSE_SECS = 0.5


class Words:
    """Feeds a word count, and checks what it has made of that."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._text: list[str] = []

    def feed(self) -> None:
        """Some more text."""
        more = [
            f"one two w{number % 7}" for number in range(len(self._text), len(self._text) + _SHARE)
        ]
        self.engine.produce(more)
        self._text += more

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Until the block ends it never has nothing to do."""
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
        """Waits until more messages are finished than now."""
        done = sum(self.engine.offsets().values())
        self.engine.until(lambda: sum(self.engine.offsets().values()) > done, 60, "more is done")

    def await_done(self) -> None:
        self.engine.await_done("sentences")

    def check(self) -> None:
        """Each word was counted once, and written once."""
        check_exactly(self.engine, self._text)
