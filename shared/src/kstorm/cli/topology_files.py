"""Collect a topology's files for the chart's values: Python code and YAML files."""

import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kstorm.errors import ConfigError
from kstorm.flux import Wiring

_MOST_BYTES: Final = 900_000
"""Limit on the total size of the files. Kubernetes accepts ConfigMaps up to 1 MiB."""
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*")


def python_files(names: Iterable[str]) -> dict[str, str]:
    """Return the Python files of modules or packages, without tests.

    The keys are paths below the folder from which each module is imported.
    """
    paths = {key: path for name in names for key, path in _paths(name)}
    if not paths:
        raise ConfigError(
            f"{_WHOLE}, but {', '.join(map(repr, names)) or 'no module'} has none: {_REMEDY}"
        )
    return _within({key: path.read_text() for key, path in paths.items()})


def wiring_files(wiring: Wiring, properties: str) -> dict[str, str]:
    """Return a topology's YAML files and its properties file.

    The keys are paths below the folder of the main file.
    """
    paths = [*dict.fromkeys(wiring.files), *([Path(properties)] if properties else [])]
    return _within({key_of(path, wiring): path.read_text(encoding="utf-8") for path in paths})


def key_of(path: Path, wiring: Wiring) -> str:
    """Return a file's path below the folder of the topology's file.

    Raises `ConfigError` if the file is elsewhere or its name is not allowed.
    """
    key = os.path.relpath(path, wiring.files[0].parent)
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"{path} cannot be part of the chart's values: put it into "
            f"{wiring.files[0].parent.resolve()} or below it, with a name of letters, digits, '.', "
            "'-' and '_'"
        )
    return key


def modules_of(wiring: Wiring) -> list[str]:
    """Return the top-level packages of the classes and functions in a topology's files.

    kstorm itself and installed packages are left out.
    """
    named = [one.value.class_ for one in wiring.components.values()]
    named += [one.value.class_ for one in (*wiring.spouts.values(), *wiring.bolts.values())]
    groupings = [stream.value.grouping.custom_class for stream in wiring.streams.values()]
    named += [one.class_ for one in groupings if one is not None]
    named += [wiring.source.value.function] if wiring.source is not None else []
    tops = dict.fromkeys(name.partition(":")[0].partition(".")[0] for name in named)
    return [name for name in tops if name != "kstorm" and not _is_installed(name)]


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    if name in sys.stdlib_module_names or spec is None or spec.origin is None:
        return name in sys.stdlib_module_names
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return any(Path(spec.origin).is_relative_to(place) for place in places)


def _within(files: Mapping[str, str]) -> dict[str, str]:
    size = sum(len(text.encode()) for text in files.values())
    if size > _MOST_BYTES:
        raise ConfigError(f"{_WHOLE}, but they have {size} bytes: {_REMEDY}")
    return dict(files)


_WHOLE: Final = f"--files takes up to {_MOST_BYTES} bytes of Python files"
_REMEDY: Final = "put the code into images instead (FROM kstorm-bolt, COPY it to /topology)"


def _paths(name: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(name)
    folders = list(map(Path, (spec and spec.submodule_search_locations) or ()))
    if not folders and spec is not None and spec.origin is not None:
        yield f"{name}.py", Path(spec.origin)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if not path.name.startswith("test_") and path.name != "conftest.py":
                yield (Path(name) / path.relative_to(folder)).as_posix(), path
