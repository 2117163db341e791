"""How driver and executors speak to each other where their connections are encrypted (`spark.network.crypto.enabled`).

Spark's own defaults do not notice a message that was changed on its way (CVE-2025-55039): AES in counter mode, and the first
version of its login. So the strong ones are set always, which costs nothing where nothing is encrypted; weaker ones are refused.
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
"""A cipher that notices what was changed; the login that derives its keys wholly; and none of the older login by MD5."""


def refuse_weaker(spark_conf: Mapping[str, str]) -> None:
    """Raise SettingsError for a setting of Spark that is weaker than ours."""
    for name, strong in STRONG.items():
        given = spark_conf.get(name, strong).strip()
        if given.casefold() != strong.casefold():
            raise SettingsError(
                f"--spark-conf (KSTORM_PIPELINE_SPARK_CONF) has {name}={given}, which would let a stranger in the network"
                f" change what driver and executors say to each other; leave it out, it is {strong}"
            )
