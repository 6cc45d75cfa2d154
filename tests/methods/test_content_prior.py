"""FedEase with content as a prior, and with a diagonal that may be above zero."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.core.types import Task
from tacit.data.dataset import FeatureTable, Modalities
from tacit.data.planted import planted_dataset
from tacit.data.protocol import CLEAN, among_cold_items
from tacit.data.split import split_dataset
from tacit.engines.custom import CustomEngine, CustomScorer
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.evaluation.metrics import metric
from tacit.evaluation.ranking import rank
from tacit.evaluation.references import chance
from tacit.experiment.reasons import HistoryReason
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.experiment.spec import Experiment
from tacit.experiment.trainer import Trainer
from tacit.methods import Edlae, FedEase
from tacit.parts.cold.features import Features
from tacit.testing import ragged
from tacit.testing.synthetic import with_content

WIDE = torch.float64
TEXT = Features(reduce=False)
TRAIN = split_dataset(with_content(ragged()), CLEAN).train


def played(method, train=TRAIN, rounds: int = 1, engine=CustomEngine):  # type: ignore[no-untyped-def]
    algorithm, plays = method.algorithm(Task.of(train)), engine(WIDE)
    state = plays.start(algorithm, train, seed=0)
    for number in range(1, rounds + 1):
        plays.round(algorithm, train, state, Participation().draw(train, 0, number), seed=0)
    return algorithm, state


def test_two_items_by_hand() -> None:
    """Features -1 and 1 as half a person: G + λI + [[1, -1], [-1, 1]]/2 = [[3.5, .5], [.5, 2.5]],
    whose inverse is [[2.5, -.5], [-.5, 3.5]] / 8.5. So B has 1/7 and 1/5: items of unlike content
    speak less for each other than without, when it was 1/3 and 1/2."""
    gram_II = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=WIDE)
    before = {"gram": torch.zeros_like(gram_II), "weight": torch.zeros_like(gram_II)}
    method = FedEase(ridges=(1.0,), content=TEXT, people=0.5)
    stepped = method.step(before, {"gram": gram_II}, 2, 1)
    assert not stepped["weight"].any()  # until the content comes
    text = FeatureTable(np.array([[0.0], [2.0]], np.float32), np.ones(2, bool))
    after = method.complete(stepped, Modalities({"text": text}))
    expected = torch.tensor([[0.0, 1 / 7], [1 / 5, 0.0]], dtype=WIDE)
    assert torch.allclose(after["weight"], expected)


def test_an_item_without_people_is_known_by_its_content() -> None:
    """Item 2 is nobody's and has the content of item 0; over these two G + λI + K is
    [[4, 1], [1, 2]], and its inverse C is [[2, -1], [-1, 4]] / 7. Item 1 stands alone."""
    gram_II = torch.diag(torch.tensor([2.0, 2.0, 0.0], dtype=WIDE))
    text = FeatureTable(
        np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], np.float32), np.ones(3, bool)
    )

    class AsTheyAre(Features):
        def rows(self, content: Modalities, warm_I: np.ndarray, table_width: int) -> np.ndarray:
            return np.sqrt(2.0) * content["text"].value_IF

    method = FedEase(ridges=(1.0,), content=AsTheyAre(reduce=False), people=1.0)
    before = {"gram": gram_II, "weight": torch.zeros_like(gram_II)}
    after = method.complete(method.step(before, {}, 0, 1), Modalities({"text": text}))
    assert after["weight"][0].tolist() == pytest.approx([0.0, 0.0, 0.25])
    assert after["weight"][2].tolist() == pytest.approx([0.5, 0.0, 0.0])


def test_content_that_says_nothing_is_fedease() -> None:
    nothing = FedEase(ridges=(0.5, 5.0), content=replace(TEXT, kind="zero"))
    for rounds in (1, 2):
        with_nothing, without = (
            played(one, rounds=rounds)[1] for one in (nothing, FedEase(ridges=(0.5, 5.0)))
        )
        assert torch.allclose(with_nothing.shared["weight"], without.shared["weight"])
    told = played(FedEase(ridges=(0.5,), content=TEXT))[1].shared["weight"]
    assert not torch.allclose(told, played(FedEase(ridges=(0.5,)))[1].shared["weight"])


def test_the_loop_and_the_ladder_of_ridges_agree() -> None:
    method = FedEase(ridges=(0.5, 5.0), content=TEXT, row_power=0.25, column_power=0.2)
    fast, slow = (played(method, rounds=2, engine=one) for one in (CustomEngine, LoopEngine))
    for name, value in fast[1].shared.items():
        assert torch.allclose(slow[1].shared[name], value), name
    everybody = np.arange(TRAIN.n_users)
    found_UI = CustomScorer(fast[0], TRAIN, fast[1])(everybody)
    for user in everybody[:5]:
        one_I = fast[1].shared["weight"].numpy()[TRAIN.history(user).item_H].sum(0)
        assert np.abs(found_UI[user] - one_I).max() < 1e-10


def test_nothing_more_is_sent_or_received() -> None:
    with_content_, without = FedEase(content=TEXT), FedEase()
    one, other = played(with_content_), played(without)
    assert one[0].uploads == other[0].uploads == {"gram"}
    user = torch.tensor(0)
    down = [algorithm.method.broadcast(state.shared, user) for algorithm, state in (one, other)]
    assert [set(received) for received in down] == [{"weight"}, {"weight"}]
    assert with_content_.interpretation() == without.interpretation()


COLD_PROTOCOL = among_cold_items(CLEAN)
COLD = split_dataset(planted_dataset(), COLD_PROTOCOL)


def recall(method: FedEase) -> float:
    trainer = Trainer(Experiment("fedease", method, 1, protocol=COLD_PROTOCOL), COLD.train, 1)
    trainer.run_round()
    return metric(rank(trainer.scores(), COLD.test).full, "Recall@20")


def test_new_items_are_ranked_by_their_content() -> None:
    """Well above chance; features that say nothing leave every new item the same, at chance."""
    both = replace(TEXT, modalities=("text", "image"))
    method = FedEase(ridges=(100.0,), content=both)
    by_chance = metric(chance(COLD.test).full, "Recall@20")
    assert recall(method) > 1.5 * by_chance
    nothing = replace(method, content=replace(TEXT, kind="zero"))
    assert recall(nothing) == pytest.approx(by_chance)
    with pytest.raises(TacitError, match="cannot rank items"):
        recall(FedEase())


def test_a_run_with_new_items_recommends_them_and_says_why(tmp_path: Path) -> None:
    experiment = resolve(
        "fedease", preset="content", sets=["ridges=[20.0]"], split="cold", rounds=1
    )
    run(experiment, tmp_path / "one")
    everything = COLD.train.n_items
    best = recommend(tmp_path / "one", user="user-3", k=everything, explain=True)
    warm = set(np.asarray(COLD.train.warm_W).tolist())
    found = [line for line in best if int(line.item.removeprefix("item-")) not in warm]
    assert found
    for line in found:
        assert isinstance(line.reason, HistoryReason)
        brought = sum(one.contribution for one in line.reason.history)
        assert brought == pytest.approx(line.score, rel=1e-4, abs=1e-5)


def test_data_without_content_and_bad_settings_are_refused() -> None:
    bare = split_dataset(ragged(), CLEAN).train
    with pytest.raises(TacitError, match="this data has none"):
        played(FedEase(content=TEXT), bare)
    with pytest.raises(TacitError, match=r"content\.reduce is true"):
        FedEase(content=Features())
    with pytest.raises(TacitError, match="people is"):
        FedEase(people=0.0)
    with pytest.raises(TacitError, match="diagonal is"):
        FedEase(diagonal=1.5)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("diagonal", [0.0, 0.2, 1.0])
def test_a_relaxed_diagonal_is_that_of_edlae(diagonal: float, dropout: float) -> None:
    """The central reference has the same weights from all histories in one place."""
    central = Edlae((5.0,), (dropout,), (diagonal,)).fit(TRAIN, 0, 0).weight_II
    sums = played(FedEase(ridges=(5.0,), dropout=dropout, diagonal=diagonal))[1]
    assert np.abs(sums.shared["weight"].numpy() - central).max() < 1e-10
    if diagonal == 0.2:
        assert 0.0 < central.diagonal().max() <= 0.2 + 1e-12
