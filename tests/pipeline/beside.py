"""Runs a function next to a continuous pipeline."""

import os
import signal
import threading
from collections.abc import Callable


def run_beside(user: Callable[[], None], run: Callable[[], None]) -> None:
    """Call `run` until SIGTERM, which it gets when the user is done. Raise the user's error if
    there was one."""
    problems: list[BaseException] = []

    def work() -> None:
        try:
            user()
        except BaseException as problem:  # noqa: BLE001 (it is the main thread's to raise)
            problems.append(problem)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=work)
    thread.start()
    run()
    thread.join()
    assert not problems, problems
