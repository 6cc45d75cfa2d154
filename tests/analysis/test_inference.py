"""Which rows each method gets, and a sentence for those it cannot have."""

from __future__ import annotations

import pytest

from tacit.analysis.finished import finished_runs
from tacit.analysis.inference import inference


def test_rows_and_sentences(runs):
    names = ("pfedrec", "fedmf", "local_only", "fedrap", "gated")
    finding = inference(finished_runs([runs / name for name in names]))
    rows = finding.tables[0].records()
    found = {name: [r["table"] for r in rows if r["run"] == name] for name in names}
    assert found == {
        "pfedrec": ["own", "global", "another's"],
        "fedmf": ["global"],
        "local_only": ["own", "another's"],
        "fedrap": ["own", "global", "personal part", "another's"],
        "gated": ["own", "global", "another's"],
    }
    said = " ".join(finding.sentences)
    assert "fedmf ranks with the global table" in said
    assert "local_only has no global table" in said
    assert "fedrap adds its personal table" in said
    for row in rows:
        run = finished_runs([runs / row["run"]])[0]
        if row["table"] == "own" or row["run"] == "fedmf":
            for kind, ending in (("full", ""), ("sampled99", " vs 99")):
                expected = run.record.metrics.of(kind)["HR@10"]
                assert row["HR@10" + ending] == pytest.approx(expected, abs=1e-12)
            assert row["NDCG@10 against own (95 %)"] is None
        else:
            assert row["NDCG@10 against own (95 %)"].endswith("]")
