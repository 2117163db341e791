"""Runs in a pod of the pipeline's image: reads a number for each key of a table.

    python -m tests.e2e.inside.tables TABLES TABLE KEY NUMBER EXPECTED PATIENCE

KEY is a column, and NUMBER an SQL expression. Reads again until the numbers add up to EXPECTED, or
have not changed for PATIENCE seconds. Prints one line of JSON.
"""

import json
import sys
import time

from kstorm_pipeline.session import start_spark
from kstorm_pipeline.setting_values import find_jars
from kstorm_pipeline.settings import Settings
from kstorm_pipeline.tables import Tables

_EVERY_SECS = 3.0


def main() -> None:
    place, table, key, number, expected, patience = sys.argv[1:]
    settings = Settings(
        tables=place,
        jars=find_jars("jars", "/opt/jars/*.jar"),
        master="local[1]",
        driver_memory="512m",
    )
    spark, tables = start_spark(settings), Tables(place)
    found: dict[str, int] = {}
    last_news = time.monotonic()
    while sum(found.values()) != int(expected) and time.monotonic() - last_news < float(patience):
        time.sleep(_EVERY_SECS)
        rows = (
            tables.read(spark, table).selectExpr(f"{key} AS key", f"{number} AS number").collect()
        )
        before, found = found, {row.key: row.number for row in rows}
        if found != before:
            last_news = time.monotonic()
    print(json.dumps({"gold": found, "quarantined": tables.count(spark, "quarantine")}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
