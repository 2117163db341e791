"""The user's code behind a topology: which files it is, whether they have changed, and which line
raised an error."""

import importlib
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from kstorm.errors import KstormError, LocalError
from kstorm.references import is_file
from kstorm.runtime.base.settings import load_topology
from kstorm.topology import Topology

_SUFFIXES: Final = (".py", ".yaml", ".yml", ".properties")
_OWN: Final = frozenset(
    ("kstorm", "kstorm_acker", "kstorm_bolt", "kstorm_pipeline", "kstorm_spout", "kstorm_ui")
)
_DEBOUNCE_MS: Final = 200
_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>\S+))?')


class UserCode:
    """The modules of the current folder that a topology imports, and its YAML file if it has one."""

    def __init__(self, reference: str, properties: str = "") -> None:
        self._reference, self._properties = reference, properties
        self._file = Path(reference).absolute() if is_file(reference) else None

    def load(self) -> Topology:
        """Import the code again, and return its topology.

        Raises `KstormError`; for an error in the code, with its file and line.
        """
        for name in [module.__name__ for module in self._modules()]:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            return load_topology(self._reference, self._properties or None)
        except KstormError:
            raise
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            raise LocalError(describe(error)) from None

    def folders(self) -> set[Path]:
        files = [Path(module.__file__) for module in self._modules() if module.__file__]
        return {file.parent for file in files + ([self._file] if self._file else [])} or {
            Path.cwd()
        }

    @contextmanager
    def watched(self) -> Iterator[threading.Event]:
        """Yield an event that is set when a file of the code changes. The folders are those of now."""
        changed, ended = threading.Event(), threading.Event()
        folders = sorted(self.folders())
        thread = threading.Thread(
            target=_watch, args=(folders, changed, ended), name="kstorm-code", daemon=True
        )
        thread.start()
        try:
            yield changed
        finally:
            ended.set()
            thread.join()

    def _modules(self) -> list[ModuleType]:
        return [
            module
            for module in list(sys.modules.values())
            if getattr(module, "__file__", None)
            and module.__name__ != "__main__"
            and is_users(str(module.__file__))
        ]


def is_users(file: str) -> bool:
    """Return True for a file of the current folder that is not of an installed package or of
    kstorm."""
    path, here = Path(file).absolute(), Path.cwd()
    if here not in path.parents:
        return False
    return not any(part == "site-packages" or part in _OWN for part in path.relative_to(here).parts)


def describe(error: BaseException) -> str:
    """Return an error in one line: its type, its text, and the file and line of the user's code."""
    return in_one_line("".join(traceback.format_exception(error)))


def in_one_line(trace: str) -> str:
    """Return the error at the end of a printed stack trace, and the user's line that raised it."""
    lines = trace.strip().splitlines()
    frames = list(_FRAME.finditer(trace))
    frame = next((each for each in reversed(frames) if is_users(each["file"])), None)
    where = ""
    if frame is not None:
        file = Path(frame["file"]).absolute().relative_to(Path.cwd())
        inside = f" in {frame['name']}" if frame["name"] else ""
        where = f"{file}:{frame['line']}{inside}: "
    return where + (lines[-1] if lines else "")


def _watch(folders: list[Path], changed: threading.Event, ended: threading.Event) -> None:
    from watchfiles import watch

    for changes in watch(
        *folders,
        watch_filter=lambda _change, path: path.endswith(_SUFFIXES),
        stop_event=ended,
        debounce=_DEBOUNCE_MS,
        recursive=False,
    ):
        if changes:
            changed.set()
