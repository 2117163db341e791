"""The release of Spark that the tests of the pipeline use: `KSTORM_TEST_SPARK` selects an older one."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kstorm.dev import jars
from tools.spark_releases import OLD_SPARK_VERSION, old_pyspark, old_spark_jars

SELECTED: Final = os.environ.get("KSTORM_TEST_SPARK") or jars.SPARK_VERSION

_JARS: Final[Mapping[str, Callable[[], list[Path]]]] = {
    jars.SPARK_VERSION: jars.spark_jars,
    OLD_SPARK_VERSION: old_spark_jars,
}


def use_selected_spark() -> None:
    """Put the selected `pyspark` before the installed one, for this process and its children.

    No module may have imported `pyspark` before.
    """
    if SELECTED == OLD_SPARK_VERSION:
        assert "pyspark" not in sys.modules
        folder = str(old_pyspark())
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (folder, os.environ.get("PYTHONPATH")))
        )


def spark_jars() -> list[Path]:
    """Return the jars that the selected Spark needs in addition to its own."""
    return _JARS[SELECTED]()
