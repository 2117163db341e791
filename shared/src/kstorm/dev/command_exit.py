"""Run a command of `./run`, and end it correctly after its work, after a user's mistake, or after
an interruption.

Ctrl-C, SIGTERM and SIGHUP all unwind the stack like an error, so that the command stops everything
that it started.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from kstorm.dev.failure_causes import disk_full
from kstorm.dev.paths import cache_directory
from kstorm.errors import ConfigError, KstormError
from kstorm.printable import printable

_AGAIN_SECS: Final = 0.1
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


def run_command(name: str, command: Callable[[], int]) -> int:
    """Run `command` and return its exit code.

    A `KstormError` has its own exit code. A full or read-only disk gives 2. Both are printed as one
    line. An interruption gives 130.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    sys.unraisablehook = _not_lost
    try:
        return command()
    except KstormError as error:
        print(f"{name}: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if (sentence := _about_disk(error)) is None:
            raise
        print(f"{name}: {printable(sentence)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted; everything that it had started was stopped", file=sys.stderr)
        return 130


def check_report(path: Path) -> None:
    """Raise `ConfigError` if a report cannot be written to this file, so that the user learns this
    before the run."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"--report {path}: give a file in a folder that exists")


def _about_disk(error: OSError) -> str | None:
    """Describe an error about a file that cannot be written. Return None for any other error."""
    path = error.filename if isinstance(error.filename, str) else os.environ.get("KSTORM_HOME", ".")
    if error.errno in _FULL:
        return disk_full(Path(path).absolute().parent)
    if error.errno in _FORBIDDEN and isinstance(error.filename, str):
        return f"this user may not write {path} ({os.strerror(error.errno)}). {_other_place(Path(path))}"
    return None


def _other_place(path: Path) -> str:
    """Name the variable that moves the file elsewhere."""
    if "UV" in os.environ:  # `./run` sets it
        return (
            "Use a checkout in a folder of your own; KSTORM_CACHE and UV_CACHE_DIR choose other folders than"
            " ~/.cache for the caches"
        )
    cache = cache_directory()
    if path == cache or path in cache.parents or cache in path.parents:
        return "Set KSTORM_CACHE to a folder that this user may write: kstorm keeps the jars there"
    return (
        "Work in a folder of your own, or set KSTORM_HOME to one: kstorm keeps state and logs there"
    )


def _not_lost(what: "sys.UnraisableHookArgs") -> None:
    """Repeat an interruption that occurred while Python finalized an object, because Python drops
    such an exception."""
    if what.exc_type is KeyboardInterrupt:
        main = threading.main_thread().ident or 0
        threading.Timer(_AGAIN_SECS, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(what)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
