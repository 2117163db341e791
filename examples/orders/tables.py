"""The tables of the orders.

kstorm-pipeline run --pipeline examples.orders.tables:pipeline --topic order-totals …

customers  one row per customer: amount, number of orders, last total from the topology
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kstorm_pipeline import Pipeline, json_records

pipeline = Pipeline(
    records=json_records(
        "id STRING NOT NULL, customer STRING NOT NULL, amount DECIMAL(18,2) NOT NULL, orders BIGINT NOT NULL, "
        "total DECIMAL(18,2) NOT NULL"
    )
)


@pipeline.gold(
    "customers", keys=["customer"], add=["amount", "orders"], latest=["total"], order="sink"
)
def customers(fresh: DataFrame) -> DataFrame:
    """Count each order once by its record's lineage, whatever the topology's guarantee."""
    return fresh.withColumn("orders", sf.lit(1))
