"""Profiles of Hypothesis: `./run test unit --hypothesis-profile=long` tries a hundred times as many examples."""

from hypothesis import HealthCheck, settings

settings.register_profile("long", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
