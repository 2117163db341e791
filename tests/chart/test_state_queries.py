"""State queries are off by default.

If enabled, they need a token, which comes from a Secret only.
"""

from typing import Any

import pytest

from kstorm.runtime.base.settings import Settings
from tests.chart.conftest import Objects, Render, environment, pod_specs

ON = {"stateQueries": {"enabled": True, "existingSecret": {"name": "ask", "key": "word"}}}


def told(objects: Objects) -> dict[str, dict[str, str]]:
    """Return the variables of state queries by pod."""
    found = {
        name: {
            key: value
            for key, value in environment(spec["containers"][0]).items()
            if key.startswith("KSTORM_STATE_")
        }
        for name, spec in pod_specs(objects).items()
        if "env" in spec["containers"][0]
    }
    return {name: variables for name, variables in found.items() if variables}


def test_state_queries_are_off_in_all_ci_files(objects: Objects) -> None:
    assert told(objects) == {}


def test_only_bolts_have_the_token(render: Render) -> None:
    """It is a file. Spouts and ackers have no state to query."""
    objects = render(ON)
    variables = {
        "KSTORM_STATE_QUERIES": "true",
        "KSTORM_STATE_TOKEN_FILE": "/etc/kstorm/state/word",
    }
    found = told(objects)
    assert {name.rsplit("-", 1)[1] for name in found} == {"split", "count", "sink"}
    assert all(each == variables for each in found.values())
    known = {
        f"KSTORM_{name.upper()}{end}"
        for name in Settings.__dataclass_fields__
        for end in ("", "_FILE")
    }
    assert variables.keys() <= known
    for name, spec in pod_specs(objects).items():
        secrets = [
            volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume
        ]
        mounts = [
            each
            for each in spec["containers"][0]["volumeMounts"]
            if each["mountPath"] == "/etc/kstorm/state"
        ]
        assert (secrets, len(mounts)) == ((["ask"], 1) if name in found else ([], 0)), name
        assert all(mount["readOnly"] for mount in mounts)


@pytest.mark.parametrize(
    ("own", "secret"), [({}, "page"), ({"existingSecret": {"name": "ask"}}, "ask")]
)
def test_token_of_the_web_ui_is_the_default(
    render: Render, own: dict[str, Any], secret: str
) -> None:
    objects = render(
        {
            "stateQueries": {"enabled": True, **own},
            "ui": {"enabled": True, "existingSecret": {"name": "page"}},
        }
    )
    found = told(objects)
    volumes = [volume for name in found for volume in pod_specs(objects)[name]["volumes"]]
    assert {volume["secret"]["secretName"] for volume in volumes if "secret" in volume} == {secret}
    assert {each["KSTORM_STATE_TOKEN_FILE"] for each in found.values()} == {
        "/etc/kstorm/state/token"
    }
