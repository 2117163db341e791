"""How a command of `./run` ends: by itself, by a mistake of the user's, or because it was told to.

The rule: Ctrl-C, SIGTERM and SIGHUP all unwind the stack like an error, so that what was started is stopped on the way.
"""

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from kstorm.errors import KstormError


def run_command(name: str, command: Callable[[], int]) -> int:
    """Run `command`; return its exit code, 2 after a `KstormError` (shown in one line), 130 after an interruption."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return command()
    except KstormError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted; everything that it had started is stopped", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
