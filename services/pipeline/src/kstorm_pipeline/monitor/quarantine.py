"""Warns if many records of a batch are unreadable. The usual cause is a wrong pipeline."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstorm_pipeline.monitor.metrics import Metrics
    from kstorm_pipeline.refine import Refined

logger = logging.getLogger(__name__)


def watch_quarantine(metrics: Metrics, refined: Refined, number: int, percent: float) -> None:
    """Warn, and count the batch, if more than `percent` of its records were quarantined."""
    quarantined = refined.rows.get("quarantine", 0)
    if not quarantined or quarantined * 100 <= refined.size * percent:
        return
    metrics.add_mostly_quarantined()
    logger.warning(
        "refine: batch %d: %d of %d records cannot be read, more than %g %% "
        "(--quarantine-percent), for example: %s. Check that the pipeline's declaration matches "
        "this topic. The records are in the table quarantine, each with its reason",
        number,
        quarantined,
        refined.size,
        percent,
        refined.reason,
    )
