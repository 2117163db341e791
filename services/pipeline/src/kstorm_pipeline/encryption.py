"""Encryption between driver and executors (`spark.network.crypto.enabled`).

Spark's defaults don't detect a message that was changed in transit (CVE-2025-55039): AES in counter
mode, and the first version of its login. So the pipeline always sets the strong ones, which cost
nothing without encryption, and refuses weaker ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstorm_pipeline.errors import PipelineError, SettingsError

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


def refuse_broken(conf: Mapping[str, str], spark: str) -> None:
    """Raise PipelineError if encryption is on and this version of Spark loses encrypted messages.

    Before 4.2, AES-GCM loses all but the first message of a connection (SPARK-56227). The driver
    would give up after a minute, because no executor or master answers.
    """
    on = conf.get("spark.network.crypto.enabled", "").strip().lower() == "true"
    if on and tuple(map(int, spark.split(".")[:2])) < (4, 2):
        raise PipelineError(
            f"spark.network.crypto.enabled is true, but Spark {spark} loses encrypted messages "
            "(SPARK-56227): use Spark 4.2.0, or leave encryption off"
        )
