"""Runs in a pod of the pipeline's image: reads how often each word occurs by the pipeline's tables.

    python tables.py TABLES EXPECTED PATIENCE

Reads again until the counts add up to EXPECTED, or until for PATIENCE seconds they have not changed. Prints one line of JSON.
"""

import json
import sys
import time

from kstorm_pipeline.session import start_spark
from kstorm_pipeline.settings import Settings, find_jars
from kstorm_pipeline.tables import Tables

_EVERY_SECS = 3.0


def main() -> None:
    place, expected, patience = sys.argv[1:]
    settings = Settings(
        tables=place, jars=find_jars("jars", "/opt/jars/*.jar"), master="local[1]", driver_memory="512m"
    )
    spark, tables = start_spark(settings), Tables(place)
    found: dict[str, int] = {}
    last_news = time.monotonic()
    while sum(found.values()) != int(expected) and time.monotonic() - last_news < float(patience):
        time.sleep(_EVERY_SECS)
        before, found = found, {row.word: row.occurrences for row in tables.read(spark, "word_counts").collect()}
        if found != before:
            last_news = time.monotonic()
    print(json.dumps({"gold": found, "quarantined": tables.count(spark, "quarantine")}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
