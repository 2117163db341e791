"""What a run shows of itself while it goes on, at `/metrics`, `/livez` and `/readyz` (docs/metrics.md).

    metrics   the figures                        topic     what the topic has and bronze has not
    pulse     whether a query stands still       unrefined what bronze has and silver has not
    pages     the HTTP server                    looking   looks at both, every few seconds
    monitor   the one object that a run reports to
    web_server   what a stranger can hold of the HTTP server

A batch brings its figures with it; nothing here asks Spark for a job.
"""
