"""Pushes images to a registry, one architecture at a time.

An image gets the tag of its version and of this machine's architecture, such as 0.1.0-arm64.
`.ci/join-images` makes 0.1.0 of those of all architectures.
"""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kstorm.errors import LocalError
from tools.images.engine import Engine

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """Return the machine's architecture, as registries name it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def built(engine: Engine, targets: Sequence[str], tag: str) -> list[str]:
    """Return the images of this tag that exist. Raises `LocalError` if there is none."""
    names = [f"kstorm-{target}:{tag}" for target in targets]
    found = [name for name in names if engine.has(name)]
    if not found:
        raise LocalError(f"no image has the tag {tag}: build them with `./run images --tag {tag}`")
    return found


def push(engine: Engine, images: Sequence[str], registry: str, file: Path | None) -> None:
    """Push images and print each one's name with its digest, also into `file`.

    REGISTRY_USER and REGISTRY_PASSWORD log in. PLAIN_HTTP=1 is for a registry without TLS.
    """
    registry = registry.lower().removesuffix("/")  # ghcr.io/$OWNER may have capitals
    if user := os.environ.get("REGISTRY_USER"):
        engine.login(registry.partition("/")[0], user, os.environ.get("REGISTRY_PASSWORD", ""))
    plain = bool(os.environ.get("PLAIN_HTTP"))
    pushed = []
    for image in images:
        tagged = f"{registry}/{image}-{architecture()}"
        digest = engine.push(image, tagged, plain_http=plain)
        pushed.append(f"{tagged.rpartition(':')[0]}@{digest}")
        print(pushed[-1], flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in pushed))
