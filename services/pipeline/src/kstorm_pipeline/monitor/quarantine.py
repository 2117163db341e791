"""A batch of which much cannot be read: seldom are the records to blame, more often a pipeline that was declared for others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstorm_pipeline.monitor.metrics import Metrics
    from kstorm_pipeline.refine import Refined

logger = logging.getLogger(__name__)


def watch_quarantine(metrics: Metrics, refined: Refined, number: int, percent: float) -> None:
    """Warn of the batch of that number, and count it, if more than so many percent of its records went to quarantine."""
    quarantined = refined.rows.get("quarantine", 0)
    if not quarantined or quarantined * 100 <= refined.size * percent:
        return
    metrics.add_mostly_quarantined()
    logger.warning(
        "refine: batch %d: %d of %d records cannot be read, more than %g %% (--quarantine-percent), for example: %s. Does the"
        " pipeline declare what is in this topic? They are in the table quarantine, each with its reason",
        number,
        quarantined,
        refined.size,
        percent,
        refined.reason,
    )
