"""Format the data folder of an embedded Kafka, as it requires before its first start.

Kafka's own tool takes seconds of CPU time, because it is a Java program. It writes the ids of
cluster and node, and the features of a new cluster. The features depend on the release only. So the
tool formats one folder per release, and later folders get a copy of its features.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from kstorm.dev.jar_fixes import copy_atomically
from kstorm.dev.paths import cache_directory
from kstorm.dev.server_settings import new_cluster_id, write_properties

_IDENTITY: Final = "meta.properties"
_FEATURES: Final = "bootstrap.checkpoint"


def is_formatted(folder: Path) -> bool:
    return (folder / _IDENTITY).exists()


def format_folder(
    folder: Path, cluster_id: str, node: str, jars: Sequence[Path], run_tool: Callable[[], None]
) -> None:
    """Format `folder`. `jars` are those of the release. `run_tool` runs Kafka's tool."""
    kept = _kept_features(jars)
    if not kept.exists():
        run_tool()
        with suppress(OSError):  # the cache may be read-only, and only controllers have features
            kept.parent.mkdir(parents=True, exist_ok=True)
            copy_atomically(folder / _FEATURES, kept)
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(kept, folder / _FEATURES)
    # Written last and all at once, because it marks the folder as formatted.
    unfinished = folder / f"{_IDENTITY}.unfinished"
    identity = {
        "version": "1",
        "cluster.id": cluster_id,
        "directory.id": new_cluster_id(),
        "node.id": node,
    }
    write_properties(unfinished, identity)
    unfinished.replace(folder / _IDENTITY)


def _kept_features(jars: Sequence[Path]) -> Path:
    names = "\n".join(sorted(jar.name for jar in jars))
    return cache_directory() / "kafka" / f"{sha256(names.encode()).hexdigest()[:16]}.checkpoint"
