"""`./run bench pipeline`: the Spark pipeline beside the least that a PySpark job can do with a topic."""
