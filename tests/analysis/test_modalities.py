"""Maps of single inputs: what is drawn is what the encoder reads."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.analysis.embeddings import item_kinds, pca
from tacit.analysis.finished import finished_runs
from tacit.analysis.modalities import modalities, nearness, spaces
from tacit.core.types import CONTENT
from tacit.errors import TacitError


def test_nearness_by_hand():
    kind_I = np.array(["train", "held out", "others", "others"], dtype=object)
    vector_ID = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [-1.0, -1.0]])
    # cosines with the train item: 0.71 of the held-out one, -1 and -0.71 of the others
    assert nearness(vector_ID, kind_I) == 1.0
    assert nearness(vector_ID + 10, kind_I) == 1.0  # what all items share does not count
    kind_I[[1, 3]] = kind_I[[3, 1]]
    assert nearness(vector_ID, kind_I) == 0.5


def test_spaces_are_the_projected_inputs(fused_runs):
    (run,) = finished_runs([fused_runs / "single"])
    found, shared = spaces(run, 3), run.state.shared
    assert list(found) == ["id", "text", "image", "mixed"]
    for name in ("text", "image"):
        value_IF = run.algorithm.content[CONTENT + name].numpy()
        weight, bias = (shared[f"project.{name}.{parameter}"].numpy() for parameter in "wb")
        assert np.allclose(found[name], value_IF @ weight + bias, atol=1e-5)
    vector = run.state.private["head.w"][3].numpy()
    score_I = found["mixed"] @ vector + float(run.state.private["head.b"][3])
    assert np.allclose(score_I, run.scores()(np.array([3]))[0], atol=1e-4)


@pytest.mark.parametrize("name", ["single", "rap", "vbpr"])
def test_the_figure_s_numbers(fused_runs, name):
    (run,) = finished_runs([fused_runs / name])
    finding = modalities([run], user="user-3")
    code = run.prepared.dataset.interactions.users.index("user-3")
    kind_I, found = item_kinds(run.prepared, code), spaces(run, code)
    points = finding.unprinted[0].records()
    assert len(points) == 4 * len(kind_I)
    image = [row for row in points if row["space"] == "image"]
    assert [row["kind"] for row in image] == kind_I.tolist()
    assert np.allclose([[row["x"], row["y"]] for row in image], pca(found["image"]))
    rows = {row["space"]: row for row in finding.tables[0].records()}
    assert rows["text"]["AUC held out, this user"] == nearness(found["text"], kind_I)
    assert rows["mixed"]["users"] == 200
    assert 0 <= rows["mixed"]["AUC held out, mean"] <= 1


def test_what_cannot_be_mapped(runs, fused_runs):
    with pytest.raises(TacitError, match="fedmf reads nothing of an item but its id"):
        modalities(finished_runs([runs / "fedmf"]))
    with pytest.raises(TacitError, match="looks into one run, not 2"):
        modalities(finished_runs([fused_runs / "single", fused_runs / "rap"]))
    with pytest.raises(TacitError, match="No user 'x' in the data"):
        modalities(finished_runs([fused_runs / "single"]), user="x")
