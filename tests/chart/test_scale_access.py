"""Who may ask Kubernetes for what: pods of StatefulSets for the scale of these, to know whether they come back."""

from typing import Any

import pytest

from tests.chart.conftest import Objects, Render, environment, one, pod_specs

SETS = {"wordcount-sentences", "wordcount-count", "wordcount-acker"}


def of_kind(objects: Objects, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in kinds]


def test_the_account_may_get_the_scale_of_its_own_stateful_sets_and_nothing_else(
    render: Render,
) -> None:
    """Each by name: no other release's, no list, and nothing of what is in the pods."""
    objects = render()
    (role,) = of_kind(objects, "Role", "ClusterRole")
    (rule,) = role["rules"]
    assert (
        set(rule.pop("resourceNames"))
        == SETS
        == {each["metadata"]["name"] for each in of_kind(objects, "StatefulSet")}
    )
    assert rule == {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["get"]}
    (binding,) = of_kind(objects, "RoleBinding", "ClusterRoleBinding")
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": role["metadata"]["name"],
    }
    account = one(objects, "ServiceAccount", "wordcount")["metadata"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]


def test_the_token_is_where_it_is_asked_with(render: Render) -> None:
    """Pods of Deployments and the Job's have none."""
    specs = pod_specs(render())
    with_token = {name for name, spec in specs.items() if spec["automountServiceAccountToken"]}
    assert with_token == {f"StatefulSet/{name}" for name in SETS}
    for name in with_token:
        assert specs[name]["serviceAccountName"] == "wordcount"


@pytest.mark.parametrize("asks", [False, True])
def test_an_account_that_exists_asks_if_it_is_told_that_it_may(render: Render, asks: bool) -> None:
    """It may have rights that nobody thought of, so its token is mounted on request, and nothing is added to its rights."""
    objects = render({"serviceAccount": {"create": False, "name": "streams", "asksScale": asks}})
    assert of_kind(objects, "Role", "RoleBinding") == []
    for name, spec in pod_specs(objects).items():
        does = asks and name.startswith("StatefulSet/")
        assert spec["automountServiceAccountToken"] is does, name
        assert ("KSTORM_STATEFUL_SET" in environment(spec["containers"][0])) is does, name


def test_where_policies_forbid_all_else_these_pods_reach_the_api_server(render: Render) -> None:
    """Those of StatefulSets, and of no Deployment; anywhere, or where the values say that it is."""
    closed: dict[str, Any] = {"enabled": True}
    for peers in ([], [{"ipBlock": {"cidr": "192.0.2.10/32"}}]):
        objects = render({"networkPolicy": {"egress": closed | {"apiServer": peers}}})
        policy = one(objects, "NetworkPolicy", "wordcount-scale")["spec"]
        (rule,) = policy["egress"]
        assert [each["port"] for each in rule["ports"]] == [443, 6443]
        assert rule.get("to", []) == peers
        assert policy["policyTypes"] == ["Egress"]
        for each in of_kind(objects, "Deployment", "StatefulSet"):
            labels = each["spec"]["template"]["metadata"]["labels"]
            (among,) = policy["podSelector"]["matchExpressions"]
            chosen = (
                policy["podSelector"]["matchLabels"].items() <= labels.items()
                and labels[among["key"]] in among["values"]
            )
            assert chosen == (each["kind"] == "StatefulSet"), each["metadata"]["name"]


def test_where_nobody_asks_no_way_is_opened(render: Render) -> None:
    """Nor where nothing is forbidden."""
    closed = {"networkPolicy": {"egress": {"enabled": True}}}
    for values in ({}, closed | {"serviceAccount": {"create": False}}):
        assert "wordcount-scale" not in [
            each["metadata"]["name"] for each in of_kind(render(values), "NetworkPolicy")
        ]
