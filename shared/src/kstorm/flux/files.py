"""File access of `kstorm.flux`. None of its other modules reads from disk."""

import sys
from pathlib import Path

from kstorm.errors import ConfigError


def read_text(path: Path, what: str) -> str:
    """Read a file. Raises `ConfigError` with a message that starts with `what`."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{what} {path} is not UTF-8: {error.reason} at byte {error.start}"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{what} {path} cannot be read: {(error.strerror or str(error)).lower()}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{what} {str(path)!r} is not the path of a file: {error}") from None


def find_resource(name: str) -> Path | None:
    """Return the first file with this path below a folder of `sys.path`, as for modules. Return
    None if not found."""
    relative = name.lstrip("/")
    found = (Path(folder or ".") / relative for folder in sys.path)
    return next((path for path in found if path.is_file()), None)
