"""The metrics of a process."""

from collections.abc import Iterator

from kstorm.runtime.base.metrics import Exposition, Latency, Sample, quantile


def test_a_quantile_is_right_to_thirty_per_cent() -> None:
    """Buckets are 30 % apart, and the result is the upper bound of the value's bucket."""
    latency = Latency()
    for milliseconds in range(1, 1001):
        latency.add(milliseconds / 1000)
    median, late = latency.quantile(0.5), latency.quantile(0.99)
    assert median is not None
    assert late is not None
    assert 0.5 <= median <= 0.65
    assert 0.99 <= late <= 1.29


def test_quantiles_of_several_processes_are_those_of_their_sum() -> None:
    """Histograms can be added, but percentiles cannot."""
    slow, quick = Latency(), Latency()
    slow.add(1.0)
    for _ in range(99):
        quick.add(0.002)
    together = quantile([a + b for a, b in zip(slow.counts, quick.counts, strict=True)], 0.99)
    assert together is not None
    assert together < 0.01
    assert quantile([0, 0], 0.5) is None


def test_the_page_has_counters_gauges_and_histograms_with_the_process_labels() -> None:
    def source() -> Iterator[Sample]:
        yield "bolt_acked_total", "Tuples acked", 3, {}
        yield "spout_failed_total", "Trees failed", 1, {"reason": "timeout"}
        yield "spout_failed_total", "Trees failed", 2, {"reason": "explicit"}
        yield "tasks", "Tasks", 4, {}

    exposition, latency = Exposition({"topology": "t", "component": "c"}), Latency()
    exposition.add(source)
    latency.add(0.01)
    exposition.add_latency("bolt_process_seconds", "Seconds", latency)
    page = exposition.text().decode()
    assert 'kstorm_bolt_acked_total{component="c",topology="t"} 3.0' in page
    assert 'reason="timeout"' in page
    assert "# TYPE kstorm_tasks gauge" in page
    assert 'kstorm_bolt_process_seconds_count{component="c",topology="t"} 1.0' in page
