"""The monitoring of a run at `/metrics`, `/livez` and `/readyz` (docs/reference/metrics.md).

    metrics      the metrics                      topic       records of the topic that bronze lacks
    pulse        how long a query has been stuck  unrefined   records of bronze that silver lacks
    pages        the HTTP pages                   looking     polls both, every few seconds
    monitor      the object that a run reports to
    quarantine   warns if too many records of a batch are quarantined
    web_server   limits the resources that a client can hold

A batch reports its own numbers. Nothing here starts a Spark job.
"""
