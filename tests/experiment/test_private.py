"""A guarantee from the command line to the record: what is claimed is what ran, and what cannot be
claimed is refused with a remedy that works."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.stats import norm as normal
from torch import Tensor

from tacit.core.algorithm import Algorithm, Bound, ClientData
from tacit.core.fit import CompositionError, LeaveOut, Remedy, settings_of
from tacit.core.method import Method
from tacit.core.ragged import RaggedBatch
from tacit.core.types import Initializer, Params, Task
from tacit.data.protocol import PROTOCOLS
from tacit.data.sources import SOURCES
from tacit.data.views import Lists, TrainView
from tacit.engines.custom import CustomEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.experiment.callbacks import Callback, Validation
from tacit.experiment.claims import IN_SIGHT, OUT_OF_SIGHT, assumptions, chosen_in_sight
from tacit.experiment.prepare import prepare
from tacit.experiment.recommend import recommend
from tacit.experiment.record import RunRecord
from tacit.experiment.record_parts import Privacy
from tacit.experiment.resolve import override, resolve
from tacit.experiment.run import RunInterruptedError, run
from tacit.experiment.spec import Experiment
from tacit.experiment.toml import dumps, loads
from tacit.experiment.trainer import Trainer
from tacit.methods import METHODS, fedmf
from tacit.methods.controls import FedPop
from tacit.methods.counts_first import CountsFirst
from tacit.parts.server import Mean
from tacit.plugins.private import private
from tacit.privacy.guarantee import Guarantee, PrivacyRequest
from tacit.study.compare import compare
from tacit.study.sweep import sweep

RECIPES = ("fedease", "fednext", "fedspectral", "dpals")  # those that bring settings of their own


def epsilon_by_hand(mu: float, delta: float = 1e-5) -> float:
    """The root of the Gaussian curve by halving, with other functions than the library's."""
    low, high = 0.0, mu * mu + 20 * mu
    for _ in range(200):
        epsilon = (low + high) / 2
        second = np.exp(epsilon + normal.logcdf(-mu / 2 - epsilon / mu))
        too_small = normal.cdf(mu / 2 - epsilon / mu) - second > delta
        low, high = (epsilon, high) if too_small else (low, epsilon)
    return low


def played(tmp_path: Path, name: str, *plugins: str, rounds: int = 3, **more: Any) -> RunRecord:
    return run(resolve(name, plugins=plugins, rounds=rounds, **more), tmp_path / "one")


# What a record says.


@pytest.mark.parametrize(
    ("name", "releases"), [("fedmf", 3), ("fedease", 1), ("fednext", 1), ("fcf_als", 3)]
)
def test_a_record_states_the_whole_claim(tmp_path: Path, name: str, releases: int) -> None:
    record = played(tmp_path, name, "private:epsilon=4,delta=1e-6,clip=1")
    told = json.loads(record.json_text)["privacy"]
    assert (told["epsilon"], told["delta"]) == (pytest.approx(4.0), 1e-6)
    assert (told["view"], told["mechanism"], told["norm"]) == ("secure_sum", "gaussian", 2)
    assert told["adjacency"] == "one user's contributions, or nothing in their place"
    assert (told["bound"], told["sensitivity"], told["releases"]) == (1.0, 1.0, releases)
    assert epsilon_by_hand(math.sqrt(releases) / told["noise"], 1e-6) == pytest.approx(4.0)
    once = epsilon_by_hand(1 / told["noise"], 1e-6)
    assert told["epsilon_per_release"] == pytest.approx(once)
    assert told["selection_covered"] is True
    assert any("secure aggregation" in sentence for sentence in told["assumes"])
    assert record.privacy.guaranteed
    assert "ε = 4, δ = 1e-06" in record.privacy.text
    assert "against a server that sees the sum of each round" in record.privacy.text
    assert "  privacy: user-level ε = 4, δ = 1e-06, secure sum" in str(record).splitlines()
    assert max(map(len, str(record).splitlines()[:-1])) <= 100
    assert record.selection == "taking the last one, whatever validation says"


def test_a_bound_that_is_estimated_is_accounted_for(tmp_path: Path) -> None:
    """In units of the bound: an upload of norm 1, and a bit with a twentieth of the square."""
    record = played(tmp_path, "pfedrec", "private:epsilon=4", rounds=4)
    assert record.privacy.epsilon == pytest.approx(4.0)
    assert record.privacy.bound == pytest.approx(0.95**-0.5)
    assert record.privacy.noise is not None
    mu = math.sqrt(4 / 0.95) / record.privacy.noise
    assert epsilon_by_hand(mu) == pytest.approx(4.0)
    assert any("privacy.bound (1 numbers)" in one for one in record.privacy.server_reads)
    assert record.engine.kernel == "linear"
    lists = recommend(record.run, user="user-0", k=3)
    assert len(lists) == 3


def test_the_local_view_says_so(tmp_path: Path) -> None:
    record = played(tmp_path, "fedavg", "private:epsilon=2,view=local,clip=0.5")
    assert record.privacy.view == "local"
    assert record.privacy.sensitivity == 1.0  # two uploads of norm 1/2
    assert (
        record.privacy.adjacency
        == "any two histories of one user that both have something to train on"
    )
    assert not any("secure aggregation" in one for one in record.privacy.assumes or ())
    assert any("clients count alike" in note for note in record.notes)


def test_without_a_claim_there_are_no_numbers(tmp_path: Path) -> None:
    told = json.loads(played(tmp_path, "fedmf").json_text)["privacy"]
    assert told.pop("guarantee") == "none"
    assert told.pop("server_reads")
    assert set(told.values()) == {None}


@pytest.mark.parametrize(
    ("plugins", "epsilon", "delta"),
    [
        (("clip:bound=0.5", "gaussian:sigma=2"), epsilon_by_hand(math.sqrt(3) / 2), 1e-5),
        (("gaussian:sigma=2", "clip:bound=0.5"), epsilon_by_hand(math.sqrt(3) / 2), 1e-5),
        (("clip:order=1,bound=0.5", "gaussian:sigma=2"), epsilon_by_hand(math.sqrt(3) / 2), 1e-5),
        (("clip:order=1,bound=0.5", "laplace:scale=2"), 3 * 1.0 / 2.0, 0.0),
        (("clip", "gaussian:sigma=0.1"), epsilon_by_hand(math.sqrt(3) * 20), 1e-5),
        (("clip:bound=0.5", "laplace:scale=2"), None, None),
        (("gaussian:sigma=2",), None, None),
        (("laplace:scale=2",), None, None),
        (("clip",), None, None),
        (("clip", "gaussian:sigma=0"), None, None),
    ],
)
def test_links_by_hand_are_accounted_for(
    tmp_path: Path, plugins: tuple[str, ...], epsilon: float | None, delta: float | None
) -> None:
    record = played(tmp_path, "fedmf", *plugins)
    assert record.privacy.delta == delta
    if epsilon is None:
        assert record.privacy.text == "no guarantee"
        assert record.privacy.epsilon is None
        return
    assert record.privacy.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert record.privacy.view == "local"
    assert "the choice on validation is not covered" in record.privacy.text


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].chosen])
def test_settings_that_we_chose_have_seen_the_data_they_were_chosen_on(name: str) -> None:
    entry = METHODS[name]
    for preset, chosen in entry.chosen.items():
        assert preset in entry.presets
        assert set(chosen.datasets) <= set(SOURCES)
        one = resolve(name, preset=preset, data=chosen.datasets[0])
        assert chosen_in_sight(one, one.method.algorithm(Task(1, 1)))
        elsewhere = resolve(name, preset=preset, data="planted")
        assert not chosen_in_sight(elsewhere, elsewhere.method.algorithm(Task(1, 1)))


def test_a_preset_that_was_tuned_on_data_has_seen_it() -> None:
    for data, seen in (("ml-100k", True), ("ml-1m", False)):
        tuned = resolve("fedmf", preset="tuned", data=data, plugins=["private"])
        assert chosen_in_sight(tuned, tuned.method.algorithm(Task(1, 1))) is seen
    for data, seen in (("ml-100k", True), ("ml-1m", True), ("ninerec-ku", False)):
        plugged = resolve("fedmf", data=data, plugins=["mdifffr:preset=tuned", "private"])
        assert chosen_in_sight(plugged, plugged.method.algorithm(Task(1, 1))) is seen


def test_a_tiny_epsilon_is_promised_as_any_other(tmp_path: Path) -> None:
    record = played(tmp_path, "fedmf", "private:epsilon=1e-9")
    assert record.privacy.epsilon == pytest.approx(0.0, abs=1e-7)
    assert record.privacy.text.startswith("user-level ε = ")


def test_links_by_hand_promise_nothing_at_a_delta_that_one_person_has(tmp_path: Path) -> None:
    """Delta is 1e-5 there, so that of 100,000 people one could be told outright."""
    stated = resolve("fedmf", plugins=["clip", "gaussian:sigma=1"]).method
    pure = resolve("fedmf", plugins=["clip:order=1", "laplace:scale=2"]).method
    for people, promised in ((99_999, True), (100_000, False)):
        assert (stated.algorithm(Task(people, 3)).guarantee(2) is not None) is promised
        assert pure.algorithm(Task(people, 3)).guarantee(2) is not None  # delta is 0


@pytest.mark.parametrize("plugins", [("private",), ("clip", "gaussian:sigma=1")])
def test_no_round_is_played_beyond_those_that_noise_was_made_for(plugins: tuple[str, ...]) -> None:
    experiment = resolve("fedmf", plugins=plugins, rounds=2)
    trainer = Trainer(experiment, prepare(experiment).split.train)
    for _ in range(2):
        trainer.run_round()
    with pytest.raises(TacitError, match="was made for 2 rounds, which are played"):
        trainer.run_round()


@dataclass(frozen=True)
class Careless(FedPop):
    """Counts within their bound, written without care: people with few items break it."""

    fault: str = "not finite"

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0)

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        own, sent = FedPop(scale="norm").update(received, private, data, round_number)
        short = data.real_H.sum() < 3
        if self.fault == "not finite":
            return own, {name: torch.where(short, torch.nan, row) for name, row in sent.items()}
        return own, {} if bool(short) else sent

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    def protected(self, request: PrivacyRequest) -> Careless:
        return replace(self, privacy=request)


def careless(fault: str) -> tuple[Algorithm, TrainView]:
    lists = Lists(np.array([0, 4, 5, 9]), np.array([0, 1, 2, 3, 0, 1, 2, 3, 4]))
    train = TrainView(5, lists, np.arange(3, dtype=np.uint64), Lists.empty(3))
    claimed = Careless(privacy=PrivacyRequest(epsilon=1e9), fault=fault)
    return claimed.algorithm(Task.of(train, 1)), train


def test_what_a_claim_would_not_hide_does_not_leave_a_device() -> None:
    """Noise hides no infinity, and where nothing is sent there is no noise."""
    algorithm, train = careless("not finite")
    engine = LoopEngine(torch.float64)
    state = engine.start(algorithm, train, 0)
    engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
    half = 0.5  # of each of two people with four items; the third sends zeros
    wanted = torch.tensor([half, 2 * half, 2 * half, 2 * half, half], dtype=torch.float64)
    assert torch.allclose(state.shared["counts"], wanted, atol=1e-3)
    algorithm, train = careless("nothing")
    state = engine.start(algorithm, train, 0)
    with pytest.raises(TacitError, match=r"a client did not send 'counts'\. .* zeros there"):
        engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)


@dataclass(frozen=True)
class WithVelocity(Careless):
    """Its server has a state that nobody sends."""

    says: bool = True

    def shared(self, task: Task) -> dict[str, Initializer]:
        return {**super().shared(task), "velocity": Initializer((task.n_items,))}

    def uploads(self, task: Task) -> frozenset[str]:
        return frozenset({"counts"}) if self.says else frozenset(self.shared(task))

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        return {**shared, **total}


@dataclass(frozen=True)
class Silent(WithVelocity):
    """Nobody sends anything, and it says so."""

    def uploads(self, task: Task) -> frozenset[str]:
        return frozenset()

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        return private, {}


def test_a_claimed_method_sends_what_it_says_and_no_more_is_asked_of_it() -> None:
    train = careless("not finite")[1]
    engine = LoopEngine(torch.float64)

    def after(method: Careless) -> Params:
        claimed = replace(method, privacy=PrivacyRequest(epsilon=1e9))
        algorithm = claimed.algorithm(Task.of(train, 1))
        state = engine.start(algorithm, train, 0)
        engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
        return state.shared

    assert after(WithVelocity())["counts"].sum() > 3.9
    assert not after(WithVelocity())["velocity"].any()
    assert not after(Silent())["counts"].any()
    with pytest.raises(TacitError, match="let `uploads` and `sent_in` say what is sent"):
        after(WithVelocity(says=False))


def test_a_server_that_steps_in_place_refuses_what_noise_does_not_hide() -> None:
    @dataclass(frozen=True)
    class InPlace(Careless):
        """Everything is written here, so that all clients run at once and the server in place."""

        runs_ragged = True

        def bound_of(self) -> Bound | None:
            return Bound(2, 1.0)

        bound = property(bound_of)  # type: ignore[assignment]

        def broadcast(self, shared: Params, user: Tensor) -> Params:
            return shared

        def update(
            self, received: Params, private: Params, data: ClientData, round_number: int
        ) -> tuple[Params, Params]:
            return private, {"counts": torch.full((5,), torch.nan)}

        def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
            return upload

        def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
            return received["counts"]

        def update_ragged(
            self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
        ) -> Params:
            return {"counts": torch.full((5,), torch.nan, dtype=torch.float64)}

        def score_ragged(
            self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
        ) -> Tensor:
            return shared["counts"].expand(len(user_B), -1)

        def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
            return total

        def step_in_place(
            self, shared: Params, total: Params, n_clients: int, round_number: int
        ) -> None:
            shared["counts"].copy_(total["counts"])

    train = careless("not finite")[1]
    algorithm = InPlace(privacy=PrivacyRequest(epsilon=1e9)).algorithm(Task.of(train, 1))
    engine = CustomEngine(torch.float64)
    assert engine.describe(algorithm).text.startswith("custom: ragged")
    assert algorithm.in_place_server is not None
    state = engine.start(algorithm, train, 0)
    with pytest.raises(TacitError, match="its sums are not finite, which noise does not hide"):
        engine.round(algorithm, train, state, Participation().draw(train, 0, 1), 0)
    assert not state.shared["counts"].isnan().any()


def test_links_by_hand_promise_nothing_where_more_is_told(tmp_path: Path) -> None:
    """Numbers of interactions as weights, pools of negatives that others' histories decide."""
    capped = ("clip", "gaussian:sigma=2")
    sets = ["server.cap=20"]
    assert not played(tmp_path / "a", "fedavg", *capped, sets=sets).privacy.guaranteed
    sets = ["protocol.negatives_exclude=unseen"]
    assert not played(tmp_path / "b", "fedmf", *capped, sets=sets).privacy.guaranteed
    assert played(tmp_path / "c", "fedmf", *capped).privacy.guaranteed


def test_who_takes_part_less_often_is_promised_more(tmp_path: Path) -> None:
    """Noise is for the user who is drawn most often; rounds without a user cost it nothing."""
    some = played(tmp_path, "fedmf", "clip", "gaussian:sigma=3", rounds=8, participation=0.25)
    assert some.privacy.releases is not None
    assert some.privacy.releases < 8
    mu = math.sqrt(some.privacy.releases) * 2 / 3
    assert some.privacy.epsilon == pytest.approx(epsilon_by_hand(mu), rel=1e-6)
    claimed = resolve("fedmf", plugins=["private"], rounds=8, participation=0.25)
    trainer = Trainer(claimed, prepare(claimed).split.train)
    assert trainer.releases == some.privacy.releases
    found = trainer.guarantee()
    assert found is not None
    assert found.epsilon == pytest.approx(8.0)


def test_where_settings_come_from_is_for_the_reader_to_check() -> None:
    """A program cannot know who looked at what; the page that is named says what is known."""
    said = assumptions(Guarantee.gaussian("secure_sum", 1.0, 2.0, 50, 1e-5))
    [settings] = [sentence for sentence in said if sentence.startswith("settings were chosen")]
    assert "has to check" in settings
    assert "docs/privacy.md" in settings
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    [told] = [part for part in page.split("\n- ") if part.startswith("**The recipes' own settings")]
    for name in ("ML-100K", "ML-1M", "Amazon-Video", "CiteULike-a", *RECIPES):
        assert name in told


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_does_not_say_that_it_never_saw_the_data_it_was_chosen_on(
    tmp_path: Path, name: str
) -> None:
    """`chosen_on` names data by the words of `tacit data list`, so a record can tell."""
    record = run(resolve(name, plugins=["private"]), tmp_path / "planted")
    assert OUT_OF_SIGHT in (record.privacy.assumes or ())
    for data in ("ml-100k", "ml-1m", "amazon-video", "amazon-video-10", "citeulike-a"):
        assert data in SOURCES
        experiment = resolve(name, data=data, plugins=["private"])
        assert chosen_in_sight(experiment, experiment.method.algorithm(Task(1, 1))), data
        for path in (f"/here/{data}", f"/here/{data}/rows.csv", f"{data.upper()}.inter"):
            by_file = resolve(name, data=path, plugins=["private"])
            assert chosen_in_sight(by_file, experiment.method.algorithm(Task(1, 1))), path
    stated = Guarantee.gaussian("secure_sum", 1.0, 2.0, 50, 1e-5)
    told = Privacy.of(stated, [], in_sight=True).assumes or ()
    assert IN_SIGHT in told
    assert OUT_OF_SIGHT not in told
    assert len(told) == len(assumptions(stated))


def test_a_run_on_data_that_was_in_sight_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountsFirst, "chosen_on", ("planted",))
    record = run(resolve("fedspectral", plugins=["private"]), tmp_path / "run")
    assert IN_SIGHT in (record.privacy.assumes or ())
    assert OUT_OF_SIGHT not in (record.privacy.assumes or ())


def test_a_guarantee_is_told_whole_or_not_at_all() -> None:
    stated = Guarantee.gaussian("secure_sum", 1.0, 2.0, 50, 1e-5)
    whole = Privacy.of(stated, ["a sum"])
    assert whole.short == "user-level ε = 20.68, δ = 1e-05, secure sum"
    assert whole.assumes == assumptions(stated)
    for name in Privacy.model_fields:
        fields = {**whole.model_dump(), name: None}
        if name in ("guarantee", "server_reads"):
            continue
        with pytest.raises(ValidationError, match=f"never told without its {name}"):
            Privacy(**fields)
        with pytest.raises(ValidationError, match="belongs to a guarantee"):
            Privacy(server_reads=(), **{name: fields[name] or whole.model_dump()[name]})


# Which round is taken.


def test_the_last_round_is_taken_whatever_validation_says(tmp_path: Path) -> None:
    values: list[Validation] = []

    class Watch(Callback):
        def validation(self, found: Validation) -> None:
            values.append(found)

    free = resolve("fedease", rounds=4, sets=["ridges=[50.0, 1e5, 1e6, 1e7]"])
    best = run(free, tmp_path / "best")
    assert best.selected_round < 4  # it gets worse, so that the two rules differ
    last = replace(free, protocol=replace(free.protocol, select="last"))
    record = run(last, tmp_path / "last", callbacks=[Watch()])
    assert (record.selected_round, record.test_released.round) == (4, 4)
    assert record.test_released.validation_value == values[-1].value
    assert [found.best_round for found in values] == [1, 2, 3, 4]
    assert record.metrics != best.metrics
    assert record.clean  # the numbers of a clean protocol, at another round


def test_a_private_run_that_is_stopped_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    experiment = resolve("pfedrec", plugins=["private:epsilon=8"], rounds=4)
    whole = run(experiment, tmp_path / "whole")

    class Stop(Callback):
        def round(self, number: int, loss: float | None) -> None:
            if number == 2:
                raise RunInterruptedError("enough")

    with pytest.raises(RunInterruptedError):
        run(experiment, tmp_path / "two", callbacks=[Stop()], checkpoint_seconds=0)
    again = run(experiment, tmp_path / "two", resume=True)
    assert again.metrics == whole.metrics
    assert again.privacy == whole.privacy


def test_an_experiment_with_a_claim_is_a_value(tmp_path: Path) -> None:
    spelled = "private:epsilon=2,delta=1e-6,view=local,clip=0.5,selection=uncovered"
    one = resolve("fedmf", plugins=[spelled])
    assert loads(dumps(one)) == one
    assert one.protocol.select == "best"
    assert "privacy" not in dumps(resolve("fedmf"))
    assert "select =" not in dumps(resolve("fedmf"))
    added = override(resolve("fedmf", rounds=3), plugins=["private:epsilon=2"])
    assert (added.protocol.select, added.label) == ("last", "fedmf + private:epsilon=2")
    changed = resolve("fedmf", plugins=["private"], sets=["privacy.epsilon=1"])
    assert isinstance(changed.method, Method)
    assert changed.method.privacy is not None
    assert changed.method.privacy.epsilon == 1.0


@pytest.mark.parametrize(
    ("spelled", "said"),
    [
        ("private:epsilon=0", "epsilon is 0.*above 0"),
        ("private:epsilon=-1", "above 0"),
        ("private:delta=0", "delta is 0.*between 0 and 1"),
        ("private:clip=0", "clip is 0.*above 0"),
        ("private:view=remote", "view"),
        ("private:selection=best", "selection"),
        ("private:sigma=1", "has no 'sigma'"),
    ],
)
def test_a_request_that_makes_no_sense_is_one_sentence(spelled: str, said: str) -> None:
    with pytest.raises(TacitError, match=said):
        resolve("fedmf", plugins=[spelled])


def test_a_delta_of_one_person_or_more_is_no_promise(tmp_path: Path) -> None:
    """Whoever publishes one history that is drawn by lot keeps delta = 1 / people, at epsilon 0."""
    people = prepare(resolve("fedpop")).split.train.n_users
    for delta, refused in ((1.0 / people, True), (0.99 / people, False)):
        experiment = resolve("fedpop", plugins=[f"private:delta={delta}"])
        if not refused:
            assert run(experiment, tmp_path / "run").privacy.delta == delta
            continue
        with pytest.raises(TacitError, match=f"{people} people.*ask for delta="):
            run(experiment, tmp_path / "refused")


# What cannot be claimed.


class Told(Mean):
    """Weights of one's own, of which nobody says a bound."""

    def weight(self, declared: Any) -> float:
        return 3.0


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tables": ({"method": "gpfedrec"}, "reads single personal tables"),
    "tables in clusters": ({"method": "cofedrec"}, "reads single personal tables"),
    "nothing sent": ({"method": "local_only"}, "sends nothing"),
    "nothing sent by a plug-in": ({"plugins": ["pie"]}, "sends nothing"),
    "central": ({"method": "ease"}, "no field `privacy`"),
    "popularity": ({"method": "popularity"}, "no field `privacy`"),
    "vectors to others": ({"method": "fedpergnn"}, "no field `privacy`"),
    "noise of its own": ({"plugins": ["gaussian"]}, "adds noise of its own"),
    "weights": (
        {"method": "fedavg", "sets": ["server.weights=examples"]},
        "told how many interactions each client has",
    ),
    "best round": ({"sets": ["protocol.select=best"]}, "Validation chooses the round"),
    "patience": ({"sets": ["protocol.patience=5"]}, "validation says when to stop"),
    "patience of a paper": ({"protocol": "fedrkg"}, "validation says when to stop"),
    "a grid": (
        {"method": "fednext", "preset": "ridge", "sets": ["ridges=[1.0, 2.0]"]},
        "tries 2 settings",
    ),
    "a grid of half-lives": (
        {"method": "fednext", "preset": "ridge", "sets": ["half_lives=[1.0, 2.0, 4.0]"]},
        "tries 3 settings",
    ),
    "pool": ({"sets": ["protocol.negatives_exclude=unseen"]}, "depends on the histories of others"),
    "counts alone": ({"method": "fedease", "rounds": 1}, "takes 2 rounds, and rounds is 1"),
    "a part of a release": ({"method": "dpals", "rounds": 2}, "takes 3 rounds, and rounds is 2"),
    "no release": ({"plugins": ["fedrkg:every=100"], "rounds": 40}, "sends anything in 40 rounds"),
}


def resolved(
    spelled: dict[str, Any], plugins: tuple[str, ...], sets: tuple[str, ...]
) -> Experiment:
    known = {key: value for key, value in spelled.items() if key not in ("plugins", "sets")}
    return resolve(known.pop("method", "fedmf"), plugins=plugins, sets=sets, **known)


@pytest.mark.parametrize("case", REFUSED)
def test_a_claim_that_cannot_be_kept_is_refused_with_a_remedy(case: str) -> None:
    spelled, said = REFUSED[case]
    plugins = (*spelled.get("plugins", ()), "private")
    sets = tuple(spelled.get("sets", ()))
    with pytest.raises(CompositionError, match=said) as caught:
        resolved(spelled, plugins, sets)
    assert caught.value.remedies
    for remedy in caught.value.remedies:
        follow(remedy, spelled, plugins, sets)
    without = resolved(spelled, tuple(one for one in plugins if one != "private"), sets)
    assert without.method.privacy is None  # nothing but the claim was refused


def follow(
    remedy: Remedy, spelled: dict[str, Any], plugins: tuple[str, ...], sets: tuple[str, ...]
) -> None:
    if isinstance(remedy, LeaveOut):
        resolved(spelled, remedy.plugins_after(plugins), sets)
        return
    more = [setting for setting in settings_of(remedy) if setting is not None]
    assert len(more) == len(settings_of(remedy))
    resolved(spelled, plugins, (*sets, *more))


CLAIMING = [("fedmf", "paper"), ("fedavg", "paper"), ("fedease", "paper"), ("fednext", "ridge")]
CLAIMING += [("fedncf", "paper"), ("fcf_als", "paper"), ("feddae", "paper")]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_protocol_keeps_a_claim_or_says_all_that_has_to_change(protocol: str) -> None:
    """Also where several things are in the way: what is advised is enough, and keeps the claim."""
    for method, preset in CLAIMING:
        spelled = {"method": method, "preset": preset, "protocol": protocol}
        try:
            resolved(spelled, ("private",), ())
            continue
        except CompositionError as refused:
            error = refused
        kept = [remedy for remedy in error.remedies if not isinstance(remedy, LeaveOut)]
        assert kept, str(error)
        for remedy in error.remedies:
            follow(remedy, spelled, ("private",), ())
            assert remedy.words in str(error)


def test_two_obstacles_are_met_with_two_settings() -> None:
    with pytest.raises(CompositionError) as caught:
        resolve("fedmf", plugins=["private"], protocol="fedmr")
    assert "protocol.negatives_exclude=train'])" in str(caught.value)
    assert " and play all rounds (sets=['protocol.patience=none']), or " in str(caught.value)


def test_weights_that_nobody_bounds_are_refused() -> None:
    method = replace(private(fedmf()), server=Told())
    experiment = resolve("fedmf", plugins=["private"])
    with pytest.raises(CompositionError, match="weighs clients without a bound"):
        replace(experiment, method=method).check()


def test_a_claim_made_in_python_is_checked_as_well() -> None:
    """Nobody resolved it, so nobody set the rule by which a round is taken."""
    by_hand = Experiment("fedmf", private(fedmf()), rounds=3)
    with pytest.raises(CompositionError, match="Validation chooses the round"):
        by_hand.check()
    pool = replace(resolve("fedmf").protocol, name="own", select="last", patience=3)
    with pytest.raises(TacitError, match=r"protocol\.patience stops where validation"):
        replace(resolve("fedmf"), protocol=pool).check()


def test_a_channel_that_does_not_keep_the_claim_never_trains() -> None:
    """A second look, at what will really run: here somebody's clip that is none."""

    class Leaky(Method):
        def algorithm(self, task: Any) -> Any:
            made = super().algorithm(task)
            if made.protection is not None:
                noise = made.protection.links[-1]
                made.__dict__["channel"] = (*self.channel, noise)  # without its clip
            return made

    experiment = resolve("fedmf", plugins=["private"], rounds=2)
    assert isinstance(experiment.method, Method)
    parts = {name: getattr(experiment.method, name) for name in vars(experiment.method)}
    with pytest.raises(TacitError, match="asks for epsilon 8, and that cannot be promised"):
        Trainer(replace(experiment, method=Leaky(**parts)), prepare(experiment).split.train)


def test_what_is_left_to_validation_is_said(tmp_path: Path) -> None:
    record = played(tmp_path, "fedmf", "private:selection=uncovered", rounds=3)
    assert record.privacy.selection_covered is False
    assert record.privacy.epsilon == pytest.approx(8.0)
    assert record.privacy.text.endswith("the choice on validation is not covered")
    assert record.privacy.short.endswith("choice uncovered")
    assert record.rounds_run == 3


def test_a_sweep_says_that_its_choice_is_not_covered(tmp_path: Path) -> None:
    table = sweep("fedease", ["privacy.epsilon=2,8"], tmp_path, plugins=["private"])
    assert table.privacy.count("user-level") == 2
    assert table.privacy.endswith("the choice among these settings is not covered")
    plain = sweep("popularity", ["evaluate_every=1"], tmp_path / "plain")
    assert plain.privacy == "no guarantee"


def test_a_comparison_says_that_seeds_are_releases_of_their_own(tmp_path: Path) -> None:
    rows = ["fedpop+private:epsilon=8", "popularity"]
    for seeds in (1, 2):
        notes = compare(rows, tmp_path / str(seeds), seeds=seeds).notes
        [*told] = [note for note in notes if "is that of one run" in note]
        assert len(told) == seeds - 1
        assert all("fedpop" in note and "popularity" not in note for note in told)


def test_every_method_of_the_list_says_one_of_two_things() -> None:
    """A guarantee of the asked size, or a refusal; nobody takes the plug-in and says nothing."""
    for name in METHODS:
        try:
            experiment = resolve(name, plugins=["private:epsilon=3"])
        except CompositionError:
            continue
        assert experiment.method.privacy is not None
        assert experiment.protocol.select == "last"
