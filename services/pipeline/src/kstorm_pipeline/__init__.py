"""The pipeline service: one PySpark job that turns the topology's sink topic into Delta tables.

    sink topic ──▶ bronze ──▶ silver ──▶ word_counts, counts_per_minute
                         └──▶ quarantine

Two Structured Streaming queries do the work. `bronze` copies the topic as it is; `refine` reads bronze and writes
everything else. Bronze is the truth: silver, quarantine and gold can always be built anew from it, whatever Kafka has
dropped by then. `tables` says what each table holds, `refine` why a crash at any point leaves nothing twice.

It depends on pyspark and delta-spark alone; all it shares with the rest of kstorm is the record on the sink topic.
"""
