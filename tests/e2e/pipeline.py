"""The release's pipeline: a driver, the executor that it starts, and their tables."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kstorm.dev.pipeline_audit import AuditedTable, read_audit
from kstorm.errors import LocalError
from tests.e2e.kube import Kube, inside, until
from tests.e2e.trial import Tables

_PATIENCE_SECS: Final = 240


@dataclass(frozen=True, slots=True)
class Counted:
    """A number for each key, from the messages and from the pipeline."""

    unit: str
    """The unit of the numbers, such as `words`."""
    truth: Counter[str]
    """From the messages."""
    gold: Counter[str]
    """From the table."""
    quarantined: int
    """Records that the pipeline could not read."""

    def faults(self) -> Iterator[str]:
        missing, extra = self.truth - self.gold, self.gold - self.truth
        if missing:
            yield f"the tables lack {missing.total():,} {self.unit}, such as {', '.join(sorted(missing)[:5])}"
        if extra:
            yield f"the tables count {extra.total():,} {self.unit} too many, such as {', '.join(sorted(extra)[:5])}"
        if self.quarantined:
            yield f"{self.quarantined:,} records of the sink are in quarantine"


class Pipeline:
    """Disturbs and audits the pipeline."""

    def __init__(self, kube: Kube, release: str, tables: Tables) -> None:
        self._kube, self._release, self._tables = kube, release, tables
        self._name = f"{release}-pipeline"

    def delete(self, part: str) -> None:
        """Delete the pod of `pipeline` (the driver) or `pipeline-executor`.

        Waits for a new executor and its first batch.
        """
        executors = set(self._pods("pipeline-executor"))
        self._kube.kubectl("delete", f"pod/{self._pods(part)[0]}", "--wait")
        self._kube.roll_out(f"deployment/{self._name}")
        until(lambda: set(self._pods("pipeline-executor")) - executors, 180, "a new executor")
        self.await_batch()

    def await_batch(self) -> None:
        """Wait until a batch that ends after this call has been written."""
        began = time.monotonic()

        def has_written() -> bool:
            since = (
                f"--since={time.monotonic() - began:.0f}s"
                if time.monotonic() - began >= 1
                else "--tail=0"
            )
            return "refine: batch" in self._kube.kubectl("logs", f"deployment/{self._name}", since)

        until(has_written, 240, "a batch of the pipeline")

    def audit(self, image: str, truth: dict[str, int]) -> Counted:
        """Compare a table with the truth of the messages: see `inside/tables.py`."""
        tables = self._tables
        command = [
            "/opt/kstorm/bin/python",
            "-m",
            "tests.e2e.inside.tables",
            "/data/tables",
            tables.table,
        ]
        command += [tables.key, tables.number, str(sum(truth.values())), str(_PATIENCE_SECS)]
        self._kube.run_pod("tables", image, command, inside("tables"), claim=self._name)
        printed = self._kube.await_end("tables", 900)
        found = json.loads(
            next(line for line in reversed(printed.splitlines()) if line.startswith('{"gold"'))
        )
        return Counted(tables.unit, Counter(truth), Counter(found["gold"]), found["quarantined"])

    def account(self) -> AuditedTable:
        """Run the chart's audit CronJob now."""
        self._kube.kubectl("create", "job", "accounting", f"--from=cronjob/{self._release}-audit")

        def has_ended() -> bool:
            (job,) = self._kube.items("jobs", "--field-selector=metadata.name=accounting")
            return bool(job["status"].get("succeeded") or job["status"].get("failed"))

        until(has_ended, 300, "the end of the audit")
        said = self._kube.kubectl("logs", "job/accounting")
        found = next(
            (line for line in reversed(said.splitlines()) if line.startswith('{"topology"')), None
        )
        if found is None:
            raise LocalError(f"the audit failed:\n{said[-1000:]}")
        return read_audit(found)

    def _pods(self, part: str) -> list[str]:
        """Return the names of running pods that are not being deleted."""
        label = f"app.kubernetes.io/instance={self._release},app.kubernetes.io/component={part}"
        found = self._kube.items("pods", "-l", label, "--field-selector=status.phase=Running")
        return [
            pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]
        ]
