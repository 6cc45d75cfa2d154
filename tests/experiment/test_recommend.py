"""Recommendations from finished runs: for known people, for newcomers, and mistakes."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tacit.core.compose import compose
from tacit.core.method import Method
from tacit.core.types import Task
from tacit.engines.scoring import Scorer
from tacit.errors import TacitError
from tacit.experiment.checkpoint import load_state
from tacit.experiment.folder import RunFolder
from tacit.experiment.prepare import prepare
from tacit.experiment.reasons import HistoryReason
from tacit.experiment.recommend import recommend
from tacit.experiment.resolve import resolve
from tacit.experiment.run import run
from tacit.methods import FedEase

NAMES = ("fedmf", "pfedrec", "local_only", "ease", "popularity", "random", "pure_svd")


@cache
def _sets(name: str) -> tuple[str, ...]:
    return ("backbone.dim=4",) if name in ("fedmf", "pfedrec", "local_only") else ()


def finished(name: str, plays: Path) -> Path:
    out = plays.parent / name
    run(resolve(name, data=str(plays), rounds=2, sets=_sets(name)), out)
    return out


def histories(plays: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in plays.read_text(encoding="utf-8").splitlines()[1:]:
        user, item, _ = line.split(",")
        found.setdefault(user, set()).add(item)
    return found


def written(plays: Path, *items: str) -> Path:
    path = plays.parent / "history.txt"
    path.write_text("\n".join(items) + "\n", encoding="utf-8")
    return path


def refusal(folder: Path, **arguments: object) -> str:
    with pytest.raises(TacitError) as caught:
        recommend(folder, **arguments)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("name", [*NAMES, "markov", "slist"])
def test_known_people_get_what_they_do_not_have(name: str, plays: Path) -> None:
    out = finished(name, plays)
    for user, known in histories(plays).items():
        best = recommend(out, user=user, k=6)
        items = [line.item for line in best]
        assert len(items) == min(6, 50 - len(known))
        assert not set(items) & known  # nor what was held out for validation and test
        assert len(set(items)) == len(items)
        assert [line.rank for line in best] == list(range(1, len(items) + 1))
        scores = [line.score for line in best]
        assert scores == sorted(scores, reverse=True)
        assert np.isfinite(scores).all()


def test_scores_are_those_of_the_selected_model(plays: Path) -> None:
    out = finished("pfedrec", plays)
    experiment = RunFolder(out).experiment()
    prepared = prepare(experiment)
    saved = load_state(out / "model")
    assert saved is not None
    assert isinstance(experiment.method, Method)
    algorithm = compose(experiment.method, Task(24, 50))
    rows = prepared.dataset.interactions
    logits = Scorer(algorithm, saved[0])(np.array([3]))[0]
    for line in recommend(out, user=rows.users[3], k=50):
        assert line.score == logits[rows.items.index(line.item)]


def test_popularity_by_hand(plays: Path) -> None:
    """A newcomer with one item gets the others by how often they stand in train."""
    out = finished("popularity", plays)
    prepared = prepare(RunFolder(out).experiment())
    count_I = prepared.split.train.popularity_I()
    items = prepared.dataset.interactions.items
    best = recommend(out, history=written(plays, items[7]), k=4)
    expected = [i for i in np.argsort(-count_I, kind="stable") if i != 7][:4]
    assert [line.item for line in best] == [items[i] for i in expected]
    assert [line.score for line in best] == [count_I[i] for i in expected]


@pytest.mark.parametrize("name", NAMES)
def test_newcomers_get_a_list_without_their_history_and_always_the_same(
    name: str, plays: Path
) -> None:
    out = finished(name, plays)
    history = sorted(histories(plays)["person 4"])[:4]
    best = recommend(out, history=written(plays, *history), k=5)
    assert len(best) == 5
    assert not {line.item for line in best} & set(history)
    # in another order, twice, with blank lines and spaces: the same person
    again = written(plays, "", *reversed(history), f"  {history[0]}  ", "")
    assert recommend(out, history=again, k=5) == best


@pytest.mark.parametrize("name", ["markov", "slist", "sasrec", "gru4rec"])
def test_the_order_of_a_newcomer_counts_where_a_method_reads_it(name: str, plays: Path) -> None:
    out = finished(name, plays)
    history = sorted(histories(plays)["person 4"])[:4]
    best = recommend(out, history=written(plays, *history), k=5)
    assert recommend(out, history=written(plays, *history), k=5) == best
    assert recommend(out, history=written(plays, *reversed(history)), k=5) != best
    assert not {line.item for line in best} & set(history)


def test_a_longer_list_begins_as_the_shorter_one(plays: Path) -> None:
    out = finished("fedmf", plays)
    assert recommend(out, user="person 4", k=9)[:3] == recommend(out, user="person 4", k=3)


def test_who_has_everything_gets_nothing(plays: Path) -> None:
    out = finished("fedmf", plays)
    everything = set().union(*histories(plays).values())
    assert recommend(out, history=written(plays, *sorted(everything)), k=5) == []


def test_titles_where_they_are_known(plays: Path, tmp_path: Path) -> None:
    assert recommend(finished("popularity", plays), user="person 4", k=1)[0].title is None
    run(resolve("popularity"), tmp_path / "planted")
    user = prepare(resolve("popularity")).dataset.interactions.users[0]
    best = recommend(tmp_path / "planted", user=user, k=2)
    dataset = prepare(resolve("popularity")).dataset
    place = dataset.interactions.items.index(best[0].item)
    assert best[0].title == dataset.texts["title"][place]


def test_mistakes_about_people(plays: Path) -> None:
    out = finished("popularity", plays)
    assert refusal(out) == "Give either user='ID' or history='FILE'."
    assert refusal(out, user="person 4", history=plays) == (
        "Give either user='ID' or history='FILE'."
    )
    assert refusal(out, user="person 4", k=0) == "k is 0; ask for at least 1 item."
    assert refusal(out, user="nobody") == (
        f"No user 'nobody' in {plays}; ids look like person 0, person 1, person 2."
    )


def test_mistakes_in_history_files(plays: Path) -> None:
    out = finished("popularity", plays)
    none = plays.parent / "none.txt"
    assert refusal(out, history=none) == (
        f"No file at {str(none)!r}; history= takes a file with one item id a line."
    )
    assert refusal(out, history=plays.parent).startswith("No file at ")
    path = written(plays, " ", "")
    assert refusal(out, history=path) == f"{str(path)!r} is empty; write one item id per line."
    known = sorted(histories(plays)["person 4"])[0]
    path = written(plays, known, "", "film 999")
    assert refusal(out, history=path).startswith(
        f"Item 'film 999' (entry 2 of {str(path)!r}) is not in the catalogue; ids look like film "
    )
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal(out, history=path) == (
        f"{str(path)!r} is not a text file; write one item id per line."
    )


def test_mistakes_about_runs(plays: Path, tmp_path: Path) -> None:
    assert "there is no experiment.toml" in refusal(tmp_path / "none", user="person 4")
    out = finished("fedmf", plays)
    unfinished = plays.parent / "unfinished"
    shutil.copytree(out, unfinished)
    (unfinished / "run.json").unlink()
    assert "is not finished" in refusal(unfinished, user="person 4")
    shutil.rmtree(out / "model")
    assert refusal(out, user="person 4") == (
        f"The run at {str(out)!r} has lost its model folder; train again."
    )


@pytest.mark.parametrize("name", ["fedmf", "popularity"])
def test_data_that_changed_since_the_run_is_refused(name: str, plays: Path) -> None:
    """Users and items would have other codes: the list would be somebody else's."""
    out = finished(name, plays)
    text = plays.read_text(encoding="utf-8").splitlines()
    plays.write_text("\n".join([text[0], "someone new,film i1,0", *text[1:]]) + "\n")
    assert refusal(out, user="person 4") == (
        f"{plays} has changed since the run at {str(out)!r}: 1 user is new ('someone new'); "
        "bring the old data back (or the version of tacit, if it is the same data), or train again "
        "into another out=."
    )


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A narrow fusion with one view per input, two rounds."""
    small = ("backbone.dim=4", "items.width=4", "items.hidden=4", "items.id_width=6")
    out = tmp_path_factory.mktemp("fused") / "one"
    run(resolve("fcf", plugins=["fedmr:views=single"], rounds=2, sets=small), out)
    return out


def test_reasons_add_up_to_the_score(fused: Path) -> None:
    """One view per input and a linear scorer: what views bring, and the bias, is the logit."""
    saved = load_state(fused / "model")
    assert saved is not None
    prepared = prepare(RunFolder(fused).experiment())
    code = prepared.dataset.interactions.users.index("user-7")
    bias = float(saved[0].private["head.b"][code])
    best = recommend(fused, user="user-7", k=5, explain=True)
    for line in best:
        reason = line.reason
        assert reason is not None
        assert list(reason.views) == ["single_id", "single_text", "single_image"]
        assert sum(reason.views.values()) + bias == pytest.approx(line.score, abs=1e-4)
        assert sum(reason.weights.values()) == pytest.approx(1.0, abs=1e-5)
        assert list(reason.inputs) == ["id", "text", "image"]
        assert sum(map(abs, reason.view_shares.values())) == pytest.approx(1.0)
        largest = max(reason.view_lifts, key=lambda name: reason.view_lifts[name])
        assert reason.carried_by == largest
        assert f"carried by the view {largest}" in reason.text()
    plain = recommend(fused, user="user-7", k=5)
    assert [line.score for line in plain] == [line.score for line in best]
    assert all(line.reason is None for line in plain)


def test_lifts_are_against_the_mean_item(fused: Path) -> None:
    everything = prepare(RunFolder(fused).experiment()).dataset.interactions.n_items
    best = recommend(fused, user="user-7", k=everything, explain=True)
    offsets = {
        round(line.reason.views["single_id"] - line.reason.view_lifts["single_id"], 4)
        for line in best
        if line.reason is not None
    }
    assert max(offsets) - min(offsets) < 1e-3  # one and the same mean for all items


LINEAR = ("fednext", "fednext width=4", "fedease", "fedspectral width=3", "ease", "pure_svd")


@pytest.mark.parametrize("name", LINEAR)
def test_what_a_history_brings_adds_up_to_the_score(name: str, plays: Path, tmp_path: Path) -> None:
    """For a known person and for a newcomer with the same items, the latest last."""
    method, *sets = name.split(" ")
    experiment = resolve(method, data=str(plays), rounds=2, sets=sets)
    out = tmp_path / "one"
    run(experiment, out)
    prepared = prepare(experiment)
    rows, train = prepared.dataset.interactions, prepared.split.train
    own = [rows.items[item] for item in train.history(4).item_H]
    file = tmp_path / "history.txt"
    file.write_text("\n".join(own), encoding="utf-8")
    known = recommend(out, user=rows.users[4], k=3, explain=True)
    new = recommend(out, history=file, k=rows.n_items, explain=True)
    for line in (*known, *new):
        reason = line.reason
        assert isinstance(reason, HistoryReason)
        brought = [one.contribution for one in reason.history]
        assert sum(brought) == pytest.approx(line.score, rel=1e-4, abs=1e-5)
        assert brought == sorted(brought, reverse=True)
        assert {one.item for one in reason.history} == set(own)
    first = known[0].reason
    assert isinstance(first, HistoryReason)
    assert 1 <= len(first.carried_by) <= 3
    assert first.text().startswith(f"carried by {first.history[0].item} (+")
    if method == "fednext":  # at most a weight of one: the latest item, with its own row
        assert first.history[0].item in own[-3:]


def test_contributions_that_do_not_add_up_explain_nothing(
    plays: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(resolve("fedease", data=str(plays), rounds=1), tmp_path / "one")
    person = prepare(resolve("fedease", data=str(plays))).dataset.interactions.users[4]
    plain = FedEase.contributions
    monkeypatch.setattr(FedEase, "contributions", lambda *own: 2.0 * plain(*own))
    with pytest.raises(TacitError, match="does not add up to it"):
        recommend(tmp_path / "one", user=person, explain=True)


def test_nothing_to_explain(plays: Path, fused: Path) -> None:
    best = recommend(finished("fedmf", plays), user="person 4", k=2, explain=True)
    assert [line.reason for line in best] == [None, None]
    assert refusal(fused, history=plays, explain=True) == (
        "explain=True is for a person of the training data; give user='ID'."
    )
