"""The checks on datasets in which the answer is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tacit.audit.audit import CHECKS, Audit, audit
from tacit.audit.checks import drawn_less, repeats, tied_times
from tacit.audit.scores import twin_alone, unseen
from tacit.audit.subject import Subject
from tacit.data.dataset import Dataset
from tacit.data.interactions import Interactions
from tacit.data.protocol import CLEAN, FEDMR, FEDRKG, PFEDREC, Protocol, SplitRule
from tacit.data.split import split_dataset
from tacit.evaluation.ranking import Evaluation
from tacit.evaluation.ranks import Ranks
from tacit.experiment.callbacks import Callback
from tacit.experiment.prepare import Prepared
from tacit.experiment.resolve import resolve
from tacit.experiment.spec import Experiment
from tacit.methods import Ease, Popularity, fedncf, local_only, pfedrec
from tacit.parts.sync import Isolated
from tacit.testing.synthetic import noise

ROUNDS = 12
SYNTHETIC = noise(n_users=150, n_items=120, history=12)
LEARNT = ("never-sampled oracle", "local training alone", "draws of held-out items")


class Trainings(Callback):
    """Counts what is begun."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def begin(self, experiment, rounds, engine) -> None:
        self.names.append(experiment.name)


def subject_of(dataset: Dataset, protocol: Protocol, method=None) -> Subject:
    experiment = Experiment("test", method or Popularity(), rounds=1, protocol=protocol)
    return Subject(experiment, Prepared(dataset, split_dataset(dataset, protocol)))


def audit_noise(method, protocol: Protocol, callbacks=()) -> Audit:
    experiment = Experiment("test", method, rounds=ROUNDS, protocol=protocol)
    prepared = Prepared(SYNTHETIC, split_dataset(SYNTHETIC, protocol))
    return audit(experiment, prepared=prepared, callbacks=callbacks)


def of(found: Audit, name: str):
    return next(finding for finding in found.findings if finding.name == name)


def test_noise_is_flagged_under_the_papers_pool_and_passes_under_clean():
    """Nothing can be learnt, so whatever is found is the protocol's."""
    watch = Trainings()
    leaky = audit_noise(pfedrec(dim=8), PFEDREC, watch)
    assert set(LEARNT) <= set(leaky.flags)
    assert "repeated pairs" not in leaky.flags
    oracle = of(leaky, "never-sampled oracle").numbers
    assert oracle["HR@10"] > 0.9
    assert oracle["chance"] == pytest.approx(10 / (120 - 11))
    lonely = of(leaky, "local training alone").numbers
    assert lonely["HR@10, audited pool"] > 0.8
    assert lonely["HR@10, honest pool"] < lonely["bound"] < 0.3
    assert "10 checks flag protocol 'pfedrec'" in leaky.conclusion
    # the method under three pools, its lonely client under two, and the draws
    assert len(watch.names) == len(set(watch.names)) == 6

    watch = Trainings()
    clean = audit_noise(pfedrec(dim=8), CLEAN, watch)
    assert clean.flags == []
    assert clean.conclusion == "None of 10 checks flags protocol 'clean'."
    assert len(watch.names) == len(set(watch.names)) == 3  # no pool differs from another


def test_a_pool_without_unseen_items_gives_late_ones_away():
    """Everybody's last two items are of six that came late. The draws tell that much, but the pool
    hides the same items from everybody, so nobody's own are told apart."""
    generator, watch = np.random.default_rng(0), Trainings()
    histories = [
        [*generator.permutation(60)[:8], *60 + generator.permutation(6)[:2]] for _ in range(100)
    ]
    rows = Interactions.from_ids(
        np.repeat(np.arange(100), 10), np.concatenate(histories), time=np.tile(np.arange(10), 100)
    )
    dataset = Dataset("late", rows)
    experiment = Experiment("test", pfedrec(dim=8), rounds=ROUNDS, protocol=FEDMR)
    prepared = Prepared(dataset, split_dataset(dataset, FEDMR))
    found = audit(experiment, prepared=prepared, callbacks=watch)
    assert found.split == "leave_one_out by time"
    assert {"never-sampled oracle", "draws of held-out items"} <= set(found.flags)
    assert of(found, "held-out item swapped").verdict == "pass"
    # the method and its lonely client under two pools each, and the draws: a swap changes no pool
    assert len(watch.names) == len(set(watch.names)) == 5


def test_a_swapped_item_rises_as_the_real_one_did():
    """The lonely client's whole score is the leak's, so it does not matter whose item it is."""
    found = of(audit_noise(local_only(dim=8), FEDRKG), "held-out item swapped")
    assert found.verdict == "FLAG"
    assert found.numbers["HR@10, real"] > 0.8
    assert found.numbers["HR@10, swapped"] > 0.8
    honest = of(audit_noise(local_only(dim=8), CLEAN), "held-out item swapped")
    assert honest.verdict == "pass"
    # at the swapped ranking everything touched is masked: 120 items less 12 of the history
    assert honest.numbers["chance"] == pytest.approx(10 / 108)


def test_a_central_method_has_nothing_to_draw():
    found = audit_noise(Ease((50.0, 500.0)), PFEDREC)
    assert found.flags == []
    for name in LEARNT:
        assert of(found, name).verdict == "note"
        assert of(found, name).text.startswith("Does not apply: ")
    assert of(found, "held-out item swapped").verdict == "pass"
    assert found.rounds_text.startswith("none: ")
    assert len(found.findings) == len(CHECKS)


def test_who_stands_in_for_a_client_that_shares_its_scorer():
    own, text = twin_alone(subject_of(SYNTHETIC, CLEAN, pfedrec(dim=4)))
    assert (own.sync, own.backbone.dim, text) == (Isolated(), 4, "The method's own client")
    drawing = replace(fedncf(), sampling=replace(fedncf().sampling, negatives=7))
    other, text = twin_alone(subject_of(SYNTHETIC, CLEAN, drawing))
    assert other == replace(local_only(), sampling=drawing.sampling)
    assert text == "PFedRec's client, standing in,"
    assert twin_alone(subject_of(SYNTHETIC, CLEAN, Ease())) is None


def test_repeats_set_a_ceiling():
    """Of four users two have their last item in train already, one in validation."""
    histories = ["abca", "abcb", "abcc", "abcd"]
    rows = Interactions.from_ids(
        np.repeat(list("wxyz"), 4), list("".join(histories)), time=np.tile([1, 2, 3, 4], 4)
    )
    found = repeats(subject_of(Dataset("repeats", rows), PFEDREC))
    assert found.verdict == "FLAG"
    assert found.numbers == {
        "ceiling": 0.25,
        "users who cannot hit": 3,
        "pairs in train and test": 2,
        "pairs in validation and test": 1,
        "pairs in train and validation": 0,
    }
    assert "3 of 4 users" in found.text
    mask_train = replace(PFEDREC, test_mask="train")
    assert repeats(subject_of(Dataset("repeats", rows), mask_train)).numbers["ceiling"] == 0.5
    first = rows.take(np.array([n for n in range(16) if n not in (3, 7, 11)]))
    assert repeats(subject_of(Dataset("once", first), CLEAN)).verdict == "pass"


def test_share_of_users_whose_test_item_a_tie_decides():
    """a: two items at the end; b: none; c: twice the same item; d: a tie, but not at the end."""
    times = {"a": [1, 2, 3, 3], "b": [1, 2, 3, 4], "c": [1, 2, 3, 3], "d": [1, 1, 2, 3]}
    items = {"a": "pqrs", "b": "pqrs", "c": "pqrr", "d": "pqrs"}
    rows = Interactions.from_ids(
        np.repeat(list(times), 4),
        list("".join(items.values())),
        time=np.concatenate(list(times.values())),
    )
    dataset = Dataset("ties", rows)
    found = tied_times(subject_of(dataset, PFEDREC))
    assert found.verdict == "note"
    assert (found.numbers["users"], found.numbers["share"]) == (1, 0.25)
    assert found.measured == "25.0% of users"
    without = replace(PFEDREC, split=SplitRule(order="random"))
    assert tied_times(subject_of(dataset, without)).text == (
        "Does not apply: the split is by random, and no single time decides it."
    )


def test_draws_against_a_hand_computed_deviation():
    """Items 1 to 4 lie outside train and were drawn 2, 4, 0 and 0 times; 3 and 4 are held out."""
    rows = Interactions.from_ids(["u", "v", "v", "u", "u"], "abcde", time=[1, 2, 3, 4, 5])
    subject = subject_of(Dataset("few", rows), CLEAN, pfedrec(dim=4))
    subject.experiment = replace(subject.experiment, rounds=9)
    assert subject.split.train.positives[0].tolist() == [0]
    count_UI = np.array([[0, 2, 4, 0, 0], [9, 0, 0, 9, 9]])
    subject.drawn = SimpleNamespace(rounds_BI=lambda user_B: count_UI[user_B])
    found = drawn_less(subject)
    # mean 1.5 and variance 2.75 over the four; two of them: variance 2 · 2.75 · (4 − 2) / (4 − 1)
    assert found.numbers["standard deviations"] == pytest.approx(-3 / (11 / 3) ** 0.5)
    assert found.numbers["mean rounds, held out"] == 0
    assert found.numbers["mean rounds, others"] == 3
    assert found.verdict == "pass"  # so few items prove nothing


def test_unseen_items_are_judged_by_item():
    """Thirty users share one unseen item that stands first: one lucky item is no proof, ten are."""
    users = np.repeat(np.arange(40), 3)
    late = [f"new{u}" if u >= 30 else "new" for u in range(40)]
    items = np.array([[f"old{u % 7}", f"old{(u + 1) % 7}", late[u]] for u in range(40)]).ravel()
    filler = [f"filler{n}" for n in range(200)]
    rows = Interactions.from_ids(
        np.concatenate([users, np.full(200, 40)]),
        np.concatenate([items, filler]),
        time=np.arange(320),
    )
    subject = subject_of(Dataset("late", rows), CLEAN)
    popularity_I = subject.split.train.popularity_I()
    test = subject.outcome("audited").test.full
    cold_H = popularity_I[test.item_H] == 0
    assert cold_H.sum() == 41
    shared_H = cold_H & (np.array(rows.items)[test.item_H] == "new")

    def with_first(first_H: np.ndarray) -> Subject:
        above_H = np.where(first_H, 0, 100)
        ranks = Ranks(
            test.user_H, test.item_H, above_H, 0 * above_H, test.candidates_H, "test", "full"
        )
        again = Subject(subject.experiment, subject.prepared)
        again.outcome = lambda *_: type(  # type: ignore[method-assign]
            "Known", (), {"test": Evaluation(ranks, ranks)}
        )
        return again

    one = unseen(with_first(shared_H))
    assert one.verdict == "note"
    assert one.numbers["HR@10 by item"] == pytest.approx(1 / 12)
    assert unseen(with_first(cold_H & ~shared_H)).verdict == "FLAG"


def test_long_methods_are_cut_only_off_the_fused_path():
    experiment = resolve("fedmf", rounds=3)
    assert audit(experiment, cap=2).rounds == 3
    slow = audit(replace(experiment, engine="cohort"), cap=2)
    assert slow.rounds == 2
    assert slow.rounds_text.startswith("2 of 3, since the engine is cohort, not fused")
