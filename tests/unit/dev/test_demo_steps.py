"""The progress of the pipeline, read from its log."""

from pathlib import Path

from kstorm.dev.demo.pipeline_run import _Steps

LOG = (
    "2026-11-26T21:04:02 INFO starting Spark on local[*]\n",
    "2026-11-26T21:04:02 INFO Spark 4.0.0 started, 0.2 s\n",
    "26/11/26 21:04:05 WARN something of Spark's\n",
    "2026-11-26T21:04:10 INFO bronze: reading\n",
    "2026-11-26T21:04:18 INFO bronze: batch 0: 180788 rows, 8.6 s\n",
    "2026-11-26T21:04:32 INFO refine: batch 0: 180788 rows in, 180788 to silver\n",
    "2026-11-26T21:04:32 INFO reading the tables\n",
    "2026-11-26T21:04:39 INFO audit: 12 partitions, 10000 messages\n",
)


def test_each_step_moves_the_line(tmp_path: Path) -> None:
    log = tmp_path / "pipeline.log"
    steps = _Steps(log)
    assert steps.look() == (0.0, "starting Spark")
    found = []
    with log.open("a") as file:
        for line in LOG:
            file.write(line[:20])
            file.flush()
            steps.look()  # an incomplete line does not count
            file.write(line[20:])
            file.flush()
            found.append(steps.look())
    assert [share for share, _ in found] == [0.0, 0.1, 0.1, 0.1, 0.3, 0.6, 0.65, 0.75]
    assert found[-1][1] == "audit"
