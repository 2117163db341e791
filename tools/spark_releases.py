"""The oldest release of Spark that the pipeline works with. Tests run on it too.

Next to this file, `spark-VERSION.sha256` lists its jars and `pyspark-VERSION.txt` pins the package.
Users and images get `SPARK_VERSION` of `kstorm.dev.jars`. The first test run that selects the old
release fetches it.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kstorm.dev.jars import jars_of
from kstorm.dev.paths import cache_directory, exclusive
from kstorm.errors import LocalError

OLD_SPARK_VERSION: Final = "4.1.1"
OLD_SPARK_LIST: Final = Path(__file__).with_name(f"spark-{OLD_SPARK_VERSION}.sha256")

_ROOT: Final = Path(__file__).resolve().parents[1]
_PINNED: Final = Path(__file__).with_name(f"pyspark-{OLD_SPARK_VERSION}.txt")


def old_spark_jars() -> list[Path]:
    """The jars for Kafka and Delta that the old release needs in addition to its own."""
    return jars_of(OLD_SPARK_LIST)


def old_pyspark() -> Path:
    """Return a folder for `PYTHONPATH` that contains only `pyspark` of the old release. The first
    call installs it."""
    folder = cache_directory() / "pyspark" / OLD_SPARK_VERSION
    with exclusive(folder.with_name(f".{folder.name}.lock")):
        if not folder.exists():
            unfinished = folder.with_name(f".{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _install(unfinished)
            unfinished.rename(folder)
    return folder


def _install(folder: Path) -> None:
    uv = os.environ.get("UV") or Path(os.environ["KSTORM_HOME"], "boot", "bin", "uv")
    command = [
        uv, "pip", "install", "--quiet", "--target", folder, "--no-deps", "--require-hashes",
        "--build-constraints", _ROOT / "build-requirements.txt", "-r", _PINNED,
    ]  # fmt: skip
    # In the checkout uv finds its settings in pyproject.toml.
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalError(f"pyspark {OLD_SPARK_VERSION} could not be installed:\n{done.stderr}")
