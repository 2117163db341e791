"""`./run bench pipeline`: compares the Spark pipeline with a minimal PySpark job."""
