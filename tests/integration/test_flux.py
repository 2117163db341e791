"""A topology in YAML on real servers. Each service loads the file, and the counts are exact."""

from pathlib import Path

import pytest

from tests.integration.conftest import RunTopology
from tests.integration.test_exactly_once import check_exactly

EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount" / "topology.yaml"
WIRED = f"""
name: ${{ENV-KSTORM_TEST_PREFIX}}
includes:
  - file: {EXAMPLE}
components:
  - id: source
    class: kstorm.kafka:SpoutConfig
    args:
      - ref: hosts
      - ${{source}}
      - /kstorm
      - ${{ENV-KSTORM_TEST_PREFIX}}
    properties:
      - name: scheme
        ref: scheme-with-place
bolts:
  - id: sink
    class: kstorm.kafka:KafkaBolt
    config_methods:
      - name: with_topic_selector
        args: ["${{sink}}"]
    tasks: 2
"""
"""The example, with the test's own topics."""
TEXT = [f"one two w{number % 7}" for number in range(3_000)]


@pytest.mark.slow
def test_word_count_from_yaml_is_exact_despite_a_kill(
    topic_prefix: str, tmp_path: Path, run_topology: RunTopology
) -> None:
    """The file includes another one, with values from a properties file and the environment."""
    file, properties = tmp_path / "topology.yaml", tmp_path / "site.properties"
    file.write_text(WIRED)
    properties.write_text(f"source: {topic_prefix}-in\nsink: {topic_prefix}-out\n")
    settings = {"KSTORM_TOPOLOGY_FILTER": str(properties)}
    with run_topology(str(file), settings=settings) as engine:
        assert engine.processes.topology.config.exactly_once
        engine.produce(TEXT[:1_500])
        engine.until(
            lambda: sum(engine.offsets().values()) > 0, 60, "the first messages are finished"
        )
        engine.worker("count-0").process.kill()
        engine.produce(TEXT[1_500:])
        engine.await_done("sentences")
        check_exactly(engine, TEXT)
