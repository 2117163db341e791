"""Encryption between driver and executors (`spark.network.crypto.enabled`).

Spark's defaults don't detect a message that was changed in transit (CVE-2025-55039): AES in counter
mode, and the first version of its login. So the pipeline always sets the strong ones, which cost
nothing without encryption, and refuses weaker ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from kstorm_pipeline.errors import PipelineError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

STRONG = {
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
}
"""A cipher that detects changes, the login that derives its keys fully, and no fallback to MD5."""


_LOSES_MESSAGES = "spark-network-common_2.13-4.0.[0-3].jar"
_JARS = Path(pyspark.__file__).parent / "jars"


def refuse_unmended(conf: Mapping[str, str], jars: Path = _JARS) -> None:
    """Raise PipelineError if AES-GCM would lose all but the first message of a connection.

    That is Spark's bug SPARK-56227.
    """
    on = conf.get("spark.network.crypto.enabled", "").strip().lower() == "true"
    if on and (found := sorted(jars.glob(_LOSES_MESSAGES))):
        raise PipelineError(
            f"spark.network.crypto.enabled is true, but {found[0]} cannot encrypt: "
            "replace it by version 4.0.4, as ./run and the images do, or leave encryption off"
        )


def refuse_weaker(spark_conf: Mapping[str, str]) -> None:
    """Raise SettingsError if a setting of Spark is weaker than those in `STRONG`."""
    for name, strong in STRONG.items():
        given = spark_conf.get(name, strong).strip()
        if given.casefold() != strong.casefold():
            raise SettingsError(
                f"--spark-conf (KSTORM_PIPELINE_SPARK_CONF) has {name}={given}, which would let "
                "others in the network change messages between driver and executors: "
                f"leave it out, the default is {strong}"
            )
