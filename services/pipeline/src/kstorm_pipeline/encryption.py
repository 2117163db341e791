"""Encryption between driver and executors (`spark.network.crypto.enabled`).

Spark's defaults don't detect a message that was changed in transit (CVE-2025-55039): AES in counter
mode, and the first version of its login. So the pipeline always sets the strong ones, which cost
nothing without encryption, and refuses weaker ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstorm_pipeline.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

STRONG = {
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
}
"""A cipher that detects changes, the login that derives its keys fully, and no fallback to MD5."""


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
