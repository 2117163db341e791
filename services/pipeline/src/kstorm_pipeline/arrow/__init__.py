"""A second path from bronze to silver, at a fifth of the cost: in Python instead of Spark.

With declared columns (`json_records`) of plain types most records are good, and Python can find
that out without Spark. `shape` describes the records, `columns` and `names` read bronze's files,
and `notes` collects statistics about the rows. `bucket_files` writes files of silver, `worker` does
all this in Spark's Python workers, and `batches` runs it for a batch of `refine`.

**The rule: the result equals Spark's, down to the last value.** So this package leaves every
difficult case to Spark. A record that is not plainly good raises `DoubtfulError`, and Spark
processes its whole batch. Spark then finds out why the record is bad, or that it is good after all.

Modules that run in a worker don't import Spark: `shape`, `columns`, `names`, `notes`,
`bucket_files` and `worker`.
"""
