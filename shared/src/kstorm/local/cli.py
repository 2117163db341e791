"""How a command of `./run` ends: by itself, by a mistake of the user's, or because it was asked to.

The rule: Ctrl-C, SIGTERM and SIGHUP all unwind the stack like an error, so that what was started is stopped on the way.
"""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from kstorm.errors import ConfigError, KstormError
from kstorm.printable import printable

_AGAIN_SECS: Final = 0.1


def run_command(name: str, command: Callable[[], int]) -> int:
    """Run `command`; return its exit code, 2 after a `KstormError` (shown in one line), 130 after an interruption."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    sys.unraisablehook = _not_lost
    try:
        return command()
    except KstormError as error:
        print(f"{name}: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted; everything that it had started is stopped", file=sys.stderr)
        return 130


def check_report(path: Path) -> None:
    """Raise `ConfigError` if a report cannot be written there: better before the run than after it."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"--report {path}: give a file in a folder that exists")


def _not_lost(what: "sys.UnraisableHookArgs") -> None:
    """An interruption that came while an object was finalized, which Python drops, comes again a moment later."""
    if what.exc_type is KeyboardInterrupt:
        main = threading.main_thread().ident or 0
        threading.Timer(_AGAIN_SECS, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(what)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
