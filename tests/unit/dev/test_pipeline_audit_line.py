"""The audit's result in the report of a run."""

import json

from kstorm.dev.pipeline_audit import AuditedTable, read_audit


def test_audit_result_is_one_line() -> None:
    """A complete audit has no fault."""
    found = {
        "messages": 1200,
        "outcomes": {"done": 1190, "dead": 10},
        "gaps": 0,
        "trees": {"said": 1250, "closed": 1251},
    }
    audited = read_audit(json.dumps({**found, "faults": []}))
    assert (
        str(audited)
        == "1,200 messages (10 dead, 1,190 done), gaps: 0, faults: 0; 1,250 trees recomputed"
    )
    assert audited.faults() == []
    assert audited.to_json() == {
        "messages": 1200,
        "done": 1190,
        "dead": 10,
        "gaps": 0,
        "trees": 1250,
        "faults": [],
    }


def test_missing_message_is_a_fault() -> None:
    """An unfinished message is a fault too, because the topology was idle.

    Without ackers there are no trees.
    """
    audited = read_audit(
        json.dumps(
            {
                "messages": 3,
                "outcomes": {"gap": 1, "not due": 2},
                "gaps": 1,
                "trees": None,
                "faults": ["gap: t[0] 7"],
            }
        )
    )
    assert str(audited) == "3 messages (1 gap, 2 not due), gaps: 1, faults: 1"
    assert audited.faults() == [
        "the audit finds 2 messages that are not done",
        "the audit finds 1 faults: gap: t[0] 7",
    ]
    assert AuditedTable().faults() == []
