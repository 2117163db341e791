"""A second way from bronze to silver, at a fifth of the cost: Python reads the files of bronze, and writes those of silver.

Where the columns are declared (`json_records`) and plain, most records are good, and no Spark is needed to see that. `shape` says
what is to be read, `columns` and `names` read it, `notes` are what is known of it then, `bucket_files` writes it, `worker` does
that in Spark's Python workers, and `batches` has a batch of `refine` done so.

**The rule: what comes out is what Spark's way makes, to the last value.** So nothing is decided here that is hard to decide: a
record that is not plainly good raises `DoubtfulError`, and its whole batch goes Spark's way, which knows why the record is bad, or
that it is good after all.

What runs in a worker imports no Spark: `shape`, `columns`, `names`, `notes`, `bucket_files` and `worker`.
"""
