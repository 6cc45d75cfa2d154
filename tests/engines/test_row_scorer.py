"""Given rows are scored as the clients' own scorer would, gaps in the content included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.types import ITEMS, Task
from tacit.data.dataset import Modalities
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import History
from tacit.engines.cohort import CohortEngine
from tacit.engines.newcomer import fit_newcomer
from tacit.engines.participation import Participation
from tacit.engines.scoring import RowScorer, Scorer
from tacit.methods import fcf, fedmf, fedncf, pfedrec
from tacit.methods.content import cs_fcf, fedvbpr
from tacit.parts.sync import Replace
from tacit.plugins.fusion import fedmr
from tacit.testing.synthetic import ragged, with_content

VIEWS = fedmr(fcf(dim=4), id_width=6)
METHODS: dict[str, Method] = {
    "fedmf": fedmf(dim=4),
    "fedncf": fedncf(dim=4),
    "pfedrec without tuned rows": replace(pfedrec(dim=4), sync=Replace()),
    "content alone": cs_fcf(dim=4, modality="image"),
    "beside content": fedvbpr(dim=8),
    "views and a history": VIEWS,
    "views, gaps as zeros": replace(VIEWS, items=replace(VIEWS.items, missing="zero")),
}


@pytest.mark.parametrize("name", METHODS)
def test_rows_of_the_table_score_as_in_the_table(name: str) -> None:
    """A third of the items has no image: the gap is the mean over the training catalogue, however
    few items are asked about."""
    train = split_dataset(with_content(ragged()), CLEAN).train
    algorithm = compose(METHODS[name], Task.of(train))
    engine = CohortEngine()
    state = engine.start(algorithm, train, 0)
    engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
    user_B, item_N = np.array([3, 0, 7]), np.array([9, 30, 31, 4])
    whole_BI = Scorer(algorithm, state, train=train)(user_B)
    row_ND = state.shared[ITEMS][torch.from_numpy(item_N)]
    content = train.content.take(item_N)
    scorer = RowScorer.of(algorithm, state, train, row_ND, content)
    np.testing.assert_allclose(scorer(user_B), whole_BI[:, item_N], rtol=1e-5, atol=1e-6)


def test_nobody_has_tuned_a_new_row() -> None:
    """PFedRec's clients rank with tuned copies; of a new item they have the server's row alone."""
    train = split_dataset(ragged(), CLEAN).train
    algorithm = compose(pfedrec(dim=4), Task.of(train))
    engine = CohortEngine()
    state = engine.start(algorithm, train, 0)
    engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
    row_ND = torch.tensor([[1.0, 0, 0, 0], [0, 2.0, 0, 0]])
    found_BN = RowScorer.of(algorithm, state, None, row_ND, Modalities())(np.array([2, 5]))
    weight_BD, bias_B = (state.private[name][[2, 5]].numpy() for name in ("head.w", "head.b"))
    bias_B = bias_B.reshape(-1)
    assert found_BN[:, 0] == pytest.approx(weight_BD[:, 0] + bias_B, abs=1e-6)
    assert found_BN[:, 1] == pytest.approx(2 * weight_BD[:, 1] + bias_B, abs=1e-6)


def test_a_newcomer_ranks_given_rows_with_its_own_scorer() -> None:
    train = split_dataset(ragged(), CLEAN).train
    algorithm = compose(fedmf(dim=4), Task.of(train))
    shared = CohortEngine().start(algorithm, train, 0).shared
    one = fit_newcomer(algorithm, shared, History(np.array([1, 2, 3])), name=5, seed=0, rounds=3)
    row_ND = torch.eye(4)
    scorer = RowScorer.of(one.algorithm, one.state, one.train, row_ND, Modalities())
    assert scorer(np.array([0]))[0] == pytest.approx(one.state.private["user"][0].numpy())
