"""Passes this machine's package registry settings to an image build as secrets.

Invariant: a build fetches from the same registries as the machine itself. Their addresses appear in
no image, layer or build argument.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kstorm.dev.java_trust import machine_bundle
from kstorm.errors import LocalError

# Settings for the location of packages and the way there. The rest (caches, folders, certificates)
# concerns this machine's files.
_PIP: Final = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY|DEFAULT_TIMEOUT|TIMEOUT|RETRIES)"
)
_UV: Final = re.compile(
    r"UV_(DEFAULT_INDEX|INDEX|INDEX_\w+|EXTRA_INDEX_URL|INSECURE_HOST|HTTP_TIMEOUT|KEYRING_PROVIDER)"
)
_PIP_SETTING: Final = re.compile(r"(?:global|install)\.([a-z-]+)='(.*)'")


def write_secrets(folder: Path, environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Write the files that docker/Dockerfile needs into `folder`, readable only by the owner.

    Returns the files by the id of their secret.
    """
    variables = _pip_settings(environ) | {
        name: value
        for name, value in environ.items()
        if _PIP.fullmatch(name) or _UV.fullmatch(name)
    }
    registries = folder / "registries"
    registries.touch(mode=0o600)
    registries.write_text(
        "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in sorted(variables.items())
        )
    )
    found = {"registries": registries}
    if bundle := machine_bundle():
        found["certificates"] = bundle
    if settings := _uv_settings(environ):
        if not Path(settings).is_file():
            raise LocalError(
                f"the settings of uv should be in {settings}, and there is no such file"
            )
        found["uv"] = Path(settings).absolute()
    return found


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in pip's own files as environment variables."""
    pip = shutil.which("pip3", path=environ.get("PATH")) or shutil.which(
        "pip", path=environ.get("PATH")
    )
    if pip is None:
        return {}
    listed = subprocess.run(
        [pip, "config", "list"], capture_output=True, text=True, check=False, env=dict(environ)
    )
    pairs = (
        match.groups()
        for line in listed.stdout.splitlines()
        if (match := _PIP_SETTING.fullmatch(line))
    )
    variables = {f"PIP_{name.replace('-', '_').upper()}": value for name, value in pairs}
    return {name: value for name, value in variables.items() if _PIP.fullmatch(name)}


def _uv_settings(environ: Mapping[str, str]) -> str | None:
    if chosen := environ.get("UV_CONFIG_FILE"):
        return chosen
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "/"), ".config"))
    return next(
        (str(path) for path in (home / "uv/uv.toml", Path("/etc/uv/uv.toml")) if path.is_file()),
        None,
    )
