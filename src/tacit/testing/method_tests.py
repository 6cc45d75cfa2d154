"""The battery that every method inherits: three lines in a test file buy all of this.

class TestFedMF(FederatedTests):
    name = "fedmf"
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from tacit.core.algorithm import Exchange
from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.data.dataset import Dataset
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.accelerators import why_not_fused
from tacit.engines.clients import ClientDraws, client_state, score_client
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participation
from tacit.engines.round import Engine
from tacit.engines.scoring import Scorer
from tacit.engines.state import State, initial_state
from tacit.evaluation.metrics import metric
from tacit.evaluation.references import chance, chance_bound
from tacit.experiment.resolve import resolve
from tacit.experiment.toml import dumps, loads
from tacit.testing.canaries import follow
from tacit.testing.play import Trace, algorithm_for, play, same_to, trace
from tacit.testing.synthetic import checkerboard, noise, ragged, with_content
from tacit.testing.threads import assert_threads_change_nothing

LOOP, COHORT = "loop", "cohort"
LEARNT = 0.9  # of HR@1 on the checkerboard: more rounds could only confirm it


class MethodTests:
    """For every method by name, federated or central.

    `learns = False` lists a control that cannot learn: the test then asserts that it does not.
    `plugins` are applied to it as `--with` does, `content` gives the datasets text and images that
    say nothing. `checkerboard_rounds` and `checkerboard_sets` say how the checkerboard is trained,
    `noise_rounds` and `noise_sets` how noise is.
    """

    name: ClassVar[str]
    plugins: ClassVar[tuple[str, ...]] = ()
    learns: ClassVar[bool] = True
    content: ClassVar[bool] = False
    checkerboard_rounds: ClassVar[int] = 100
    checkerboard_sets: ClassVar[tuple[str, ...]] = ()
    noise_rounds: ClassVar[int] = 40
    noise_sets: ClassVar[tuple[str, ...]] = ()

    def method(self, sets: tuple[str, ...] = ()) -> Any:
        return resolve(self.name, plugins=self.plugins, sets=sets).method

    def with_its_content(self, plain: Dataset) -> Dataset:
        return with_content(plain) if self.content else plain

    def test_checkerboard(self) -> None:
        """With clear structure the withheld item ranks first, at the latest after these rounds."""
        ranks = play(
            self.method(self.checkerboard_sets),
            self.with_its_content(checkerboard()),
            rounds=self.checkerboard_rounds,
            enough=LEARNT,
        )
        hit = metric(ranks.full, "HR@1")
        if self.learns:
            assert hit >= 0.8, f"{self.name} did not learn the checkerboard: HR@1 = {hit:.3f}"
        else:
            assert hit < 0.2, f"{self.name} is listed as unable to learn, but HR@1 = {hit:.3f}"

    def test_noise(self) -> None:
        """With nothing to learn it stays at chance: a leak of any origin would show."""
        dataset = self.with_its_content(noise())
        ranks = play(self.method(self.noise_sets), dataset, rounds=self.noise_rounds, every=5)
        expected = metric(chance(split_dataset(dataset, CLEAN).test).full, "HR@10")
        low, high = chance_bound(dataset.interactions.n_users, expected)
        found = metric(ranks.full, "HR@10")
        assert low <= found <= high, f"HR@10 = {found:.3f} on noise, outside {low:.3f}-{high:.3f}"

    def test_config_round_trip(self) -> None:
        """Value -> TOML -> value is the identity, for every preset."""
        from tacit.methods import METHODS

        for preset in METHODS[self.name].presets:
            experiment = resolve(self.name, plugins=self.plugins, preset=preset, seed=3)
            assert loads(dumps(experiment)) == experiment

    def test_scoring_twice_is_the_same(self) -> None:
        dataset = self.with_its_content(ragged(n_users=12, n_items=20))
        one, two = (play(self.method(), dataset, rounds=2).full for _ in range(2))
        assert np.array_equal(one.above_H, two.above_H)


class FederatedTests(MethodTests):
    """For methods made of parts: engines agree, private stays private, order changes nothing.

    `server_makes` are parameters that a server makes anew each round, whether or not clients learn.
    `float32_sets` go beside `engine_sets` where engines are compared in float32: Adam divides a
    gradient by its own size, so with its usual epsilon a tiny one becomes a step made of rounding.
    """

    server_makes: ClassVar[frozenset[str]] = frozenset()
    float32_sets: ClassVar[tuple[str, ...]] = ()
    engine_sets: ClassVar[tuple[str, ...]] = ("local.batch=16", "local.epochs=2", "backbone.dim=6")
    _traces64: ClassVar[dict[tuple[type, str], Trace]] = {}

    def small(self) -> Method:
        method: Method = self.method(self.engine_sets)
        return method

    def train(self) -> TrainView:
        """Few clients, yet more of them in a round than a block of the cohort's seven."""
        return split_dataset(self.with_its_content(ragged(n_users=12, n_items=20)), CLEAN).train

    def still(self, method: Method) -> Method:
        """The method with all rates at zero."""
        local = method.local
        inner = local.inner or local
        inner = replace(
            inner,  # type: ignore[type-var]
            model=replace(inner.model, rate=0.0),  # type: ignore[type-var]
            items=replace(inner.items, rate=0.0),  # type: ignore[type-var]
        )
        still = replace(local, inner=inner) if local.inner else inner  # type: ignore[type-var]
        server = method.server
        if server.gradients is not None:
            server = server.with_steps(Sgd(0.0), Sgd(0.0))
        return replace(method, local=still, server=server)

    def engines(self, dtype: torch.dtype) -> dict[str, CohortEngine]:
        engines = {COHORT: CohortEngine(dtype, block=7, fused="never")}
        if why_not_fused(algorithm_for(self.small(), self.train()), "cpu") is None:
            engines["fused"] = CohortEngine(dtype, fused="always")
        return engines

    def trace64(self, name: str) -> Trace:
        """Three rounds in float64 on the loop or one of `engines`; tests of a class share them."""
        key = (type(self), name)
        if key not in self._traces64:
            engines: dict[str, Engine] = {LOOP: LoopEngine(torch.float64)}
            engines |= self.engines(torch.float64)
            self._traces64[key] = trace(self.small(), self.train(), engines[name])
        return self._traces64[key]

    def test_engines_agree_in_float64(self) -> None:
        """In all parameters, in the loss, and in the rows that clients tuned for themselves."""
        reference = self.trace64(LOOP)
        for name in self.engines(torch.float64):
            found = self.trace64(name)
            for parameter, value in reference.end.items():
                allowed = 1e-10 * reference.change(parameter)
                assert same_to(value, found.end[parameter], allowed), (
                    f"{name} differs in {parameter}"
                )
            assert abs(found.state.loss - reference.state.loss) < 1e-10
            self.assert_same_tuned_rows(reference.state, found.state)

    def assert_same_tuned_rows(self, reference: State, found: State) -> None:
        assert (found.tuned is None) == (reference.tuned is None)
        if found.tuned is None or reference.tuned is None:
            return
        for user in range(self.train().n_users):
            item_R, row_RD = reference.tuned.of(user)
            found_R, found_RD = found.tuned.of(user)
            assert np.array_equal(item_R, found_R)
            assert torch.allclose(row_RD, found_RD, rtol=1e-9, atol=1e-9)

    def test_engines_agree_in_float32(self) -> None:
        method = self.method((*self.engine_sets, *self.float32_sets))
        reference = trace(method, self.train(), LoopEngine())
        for name, engine in self.engines(torch.float32).items():
            found = trace(method, self.train(), engine)
            for parameter, value in reference.end.items():
                allowed = 1e-4 * reference.change(parameter)
                assert same_to(value, found.end[parameter], allowed, ulps=4), f"{name}: {parameter}"

    def test_blocks_change_nothing(self) -> None:
        traces = [
            trace(self.small(), self.train(), CohortEngine(torch.float64, block=b, fused="never"))
            for b in (1, 64)
        ]
        traces.append(self.trace64(COHORT))  # in blocks of seven
        for name, value in traces[0].end.items():
            for other in traces[1:]:
                assert same_to(value, other.end[name], 1e-10 * traces[0].change(name))

    def test_order_of_users_changes_nothing(self) -> None:
        train = self.train()
        order_U = np.random.default_rng(0).permutation(train.n_users)
        moved = train.take(order_U)
        for name, engine in self.engines(torch.float64).items():
            one, two = self.trace64(name), trace(self.small(), moved, engine)
            for parameter, value in one.end.items():
                here = value[torch.from_numpy(order_U)] if parameter in one.state.private else value
                assert same_to(here, two.end[parameter], 1e-10 * one.change(parameter)), (
                    f"{name}: {parameter}"
                )

    def test_threads_change_not_a_bit(self) -> None:
        if "fused" not in self.engines(torch.float64):
            return
        train = split_dataset(self.with_its_content(ragged(n_users=150, n_items=40)), CLEAN).train
        method = self.small()
        assert_threads_change_nothing(lambda engine: trace(method, train, engine, rounds=2))

    def test_private_stays_private(self) -> None:
        """An upload holds shared parameters only, and nothing else has a way out."""
        train, method = self.train(), self.small()
        algorithm = algorithm_for(method, train)
        state = initial_state(algorithm, train, seed=0)
        data = ClientDraws.of(algorithm, Exchange(), train, 0, 1, torch.float32).client(2)
        client = client_state(algorithm, train, state, 2)
        result = algorithm.update(Exchange(), state.shared, client, data, 1)
        sent = set(result.upload.change)
        assert sent == set(algorithm.uploads) <= set(algorithm.shared)
        if method.server.tables is None and method.sync.guidance is None:
            assert sent == set(algorithm.shared) - set(method.sync.needs)
        assert not set(result.upload.change) & set(algorithm.private)

    def test_a_client_scores_by_itself_as_the_engine_scores_for_it(self) -> None:
        """The contract's `score`, which a device calls, beside the scores of whole blocks."""
        train = self.train()
        found = self.trace64(LOOP)
        algorithm = algorithm_for(self.small(), train)
        score_UI = Scorer(algorithm, found.state, train=train)(np.arange(6))
        with torch.no_grad():
            for user in range(6):
                alone_I = score_client(algorithm, train, found.state, user).numpy()
                assert np.allclose(alone_I, score_UI[user], rtol=1e-9, atol=1e-9)

    def test_canaries_stay_on_the_device(self) -> None:
        """Marked private values and histories are in no upload and in nothing the server holds."""
        follow(algorithm_for(self.small(), self.train()), self.train())

    def test_zero_rates_are_the_identity(self) -> None:
        still = self.still(self.small())
        engines: tuple[Engine, ...] = (LoopEngine(), *self.engines(torch.float32).values())
        for engine in engines:
            found = trace(still, self.train(), engine)
            for name, value in found.start.items():
                assert torch.equal(value, found.end[name]) == (name not in self.server_makes), name

    def test_who_sits_out_keeps_what_it_had(self) -> None:
        train = self.train()
        found = trace(
            self.small(), train, LoopEngine(), rounds=1, participation=Participation(ratio=0.5)
        )
        absent = ~found.state.fresh_U
        assert absent.any()
        for name in found.state.private:
            assert torch.equal(found.start[name][absent], found.end[name][absent])

    def test_padding_of_short_clients_changes_nothing(self) -> None:
        """The shortest client trains alone as it does beside the longest one."""
        train = self.train()
        everyone = trace(self.small(), train, CohortEngine(torch.float64, fused="never"), rounds=1)
        alone = trace(
            self.small(), train, CohortEngine(torch.float64, block=1, fused="never"), rounds=1
        )
        for name in everyone.state.private:
            assert torch.allclose(everyone.end[name], alone.end[name], rtol=0, atol=1e-12)
