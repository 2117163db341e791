"""Runs a user's actions while a pipeline runs."""

import os
import signal
import threading
from collections.abc import Callable


def run_beside(user: Callable[[], None], run: Callable[[], None]) -> None:
    """Run the pipeline until SIGTERM, which it gets when the user is done.

    If the user's actions fail, so does the test.
    """
    problems: list[BaseException] = []

    def work() -> None:
        try:
            user()
        except BaseException as problem:  # noqa: BLE001 (the main thread raises it)
            problems.append(problem)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=work)
    thread.start()
    run()
    thread.join()
    assert not problems, problems
