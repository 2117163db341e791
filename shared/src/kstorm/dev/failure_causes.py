"""Find the cause of a failure in a log, and describe it in one sentence with the remedy.

Package installers, Ivy, Kafka, ZooKeeper and Spark each report a full disk or a missing network
differently, in the middle of many lines. The set-up uses this module before any package is
installed, so it imports only the standard library.
"""

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_NO_NETWORK: Final = (
    "the registry does not answer. Check the network and run the same command again, which"
    " continues where it stopped."
)
_FULL_BYTES: Final = 8 * 2**20
"""A disk with less free space than this counts as full, because some programs remove unfinished
files before they exit."""


def explain_fetch(log: str, folder: Path, mirror: str = "") -> str | None:
    """Describe why packages or jars could not be fetched, and the remedy. Return None if the log
    shows no known cause. The program writes to `folder`; `mirror` explains how to use a proxy or a
    mirror."""
    found = _explain(log, folder, (_DISK, _COMPILER, _NETWORK, _RIGHTS))
    return f"{found} {mirror}".strip().removesuffix(".") if found == _NO_NETWORK else found


def explain_run(log: str, folder: Path) -> str | None:
    """Like `explain_fetch`, for a server or a process on this machine that has failed."""
    return _explain(log, folder, (_DISK, _PORT, _RIGHTS))


def cause_in(log: str, folder: Path) -> str:
    """Return the cause that `explain_run` finds in parentheses, to follow a sentence. Empty if it
    finds none."""
    found = explain_run(log, folder)
    return f" ({found})" if found else ""


def disk_full(folder: Path) -> str:
    return (
        f"the disk of {folder} is full: {_free_bytes(folder) // 2**20} MB are left. Free some space and run the same command"
        " again"
    )


def tail(log: str, lines: int = 15) -> str:
    """The last lines of a log, indented."""
    return "".join(f"  {line}\n" for line in log.rstrip().splitlines()[-lines:])


def _free_bytes(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _full(found: re.Match[str], folder: Path, log: str) -> str:
    return disk_full(folder)


def _no_compiler(found: re.Match[str], folder: Path, log: str) -> str:
    package = re.search(r"Failed to (?:download and )?build `([^`]+)`", log)
    return (
        f"{package[1] if package else 'a package'} has no wheel for this Python, and there is no compiler {found[1]!r} to build"
        " it. Set KSTORM_PYTHON to a Python that has wheels (3.11 to 3.13), or install a compiler (on Debian and Ubuntu:"
        " apt-get install build-essential python3-dev)"
    )


def _forbidden(found: re.Match[str], folder: Path, log: str) -> str:
    return (
        "this user may not write where the command keeps its files (the log names the path). Use a checkout in a folder of your"
        " own; KSTORM_CACHE and UV_CACHE_DIR choose other folders than ~/.cache for the caches"
    )


def _taken(found: re.Match[str], folder: Path, log: str) -> str:
    port = re.search(r"bind(?:ing)? to (?:port )?/?[\w.]*:(\d+)", log)
    return f"another program uses its port{f' {port[1]}' if port else ''}. Run the same command again, which chooses other ports"


_Cause = tuple[re.Pattern[str], Callable[[re.Match[str], Path, str], str]]

_DISK: Final[_Cause] = (
    re.compile(
        r"No space left on device|os error 28\b|Errno 28\]|Disk quota exceeded|os error 122\b"
    ),
    _full,
)
_COMPILER: Final[_Cause] = (
    re.compile(
        r"(?:No such file or directory: |command )'([^' ]*(?:gcc|cc|clang|g\+\+)[^' ]*)'(?! failed with)"
    ),
    _no_compiler,
)
_NETWORK: Final[_Cause] = (
    re.compile(
        r"dns error|name resolution|Name or service not known|failed to lookup address|nodename nor servname"
        r"|UnknownHostException|Unknown host|Network is unreachable|No route to host|error sending request"
        r"|tcp connect error|operation timed out|Connection timed out|connect timed out|NewConnectionError"
        r"|Server access error|ConnectException|network was disabled"
    ),
    lambda found, folder, log: _NO_NETWORK,
)
_RIGHTS: Final[_Cause] = (
    re.compile(r"Permission denied|os error 13\b|Errno 13\]|Read-only file system"),
    _forbidden,
)
_PORT: Final[_Cause] = (
    re.compile(r"Address already in use|BindException|Errno 98\]|Errno 48\]"),
    _taken,
)


def _explain(log: str, folder: Path, causes: Iterable[_Cause]) -> str | None:
    for pattern, sentence in causes:
        if found := pattern.search(log):
            return sentence(found, folder, log)
    return disk_full(folder) if _free_bytes(folder) < _FULL_BYTES else None
