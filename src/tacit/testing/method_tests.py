"""The battery that every method inherits: three lines in a test file buy all of this.

class TestFedMF(FederatedTests):
    name = "fedmf"
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from tacit.core.method import Method
from tacit.core.optim import Sgd
from tacit.core.parts import Guided, TablePenalised, TableRule
from tacit.data.batches import draw_block, past_of_block
from tacit.data.dataset import Dataset
from tacit.data.protocol import CLEAN
from tacit.data.sampling import samples_per_user
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.base import Engine
from tacit.engines.claims import why_not_fused
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine, local_update
from tacit.engines.participation import Participation
from tacit.engines.state import initial_state
from tacit.evaluation.metrics import metric
from tacit.evaluation.references import chance, chance_bound
from tacit.experiment.resolve import resolve
from tacit.experiment.toml import dumps, loads
from tacit.parts.local import Held
from tacit.parts.server import ServerSteps
from tacit.testing.play import algorithm_for, play, same_to, trace
from tacit.testing.threads import assert_threads_change_nothing
from tacit.testing.worlds import checkerboard, noise, ragged, with_content


class MethodTests:
    """For every method by name, federated or central.

    `learns = False` lists a control that cannot learn: the test then asserts that it does not.
    `plugins` are applied to it as `--with` does, `content` gives the worlds text and images that
    say nothing. `checkerboard_rounds` and `checkerboard_sets` say how the checkerboard is trained.
    """

    name: ClassVar[str]
    plugins: ClassVar[tuple[str, ...]] = ()
    learns: ClassVar[bool] = True
    content: ClassVar[bool] = False
    checkerboard_rounds: ClassVar[int] = 100
    checkerboard_sets: ClassVar[tuple[str, ...]] = ()
    noise_rounds: ClassVar[int] = 40

    def method(self, sets: tuple[str, ...] = ()) -> Any:
        return resolve(self.name, plugins=self.plugins, sets=sets).method

    def world(self, plain: Dataset) -> Dataset:
        return with_content(plain) if self.content else plain

    def test_checkerboard(self) -> None:
        """With clear structure the withheld item ranks first."""
        ranks = play(
            self.method(self.checkerboard_sets),
            self.world(checkerboard()),
            rounds=self.checkerboard_rounds,
        )
        hit = metric(ranks.full, "HR@1")
        if self.learns:
            assert hit >= 0.8, f"{self.name} did not learn the checkerboard: HR@1 = {hit:.3f}"
        else:
            assert hit < 0.2, f"{self.name} is listed as unable to learn, but HR@1 = {hit:.3f}"

    def test_noise(self) -> None:
        """With nothing to learn it stays at chance: a leak of any origin would show."""
        world = self.world(noise())
        ranks = play(self.method(), world, rounds=self.noise_rounds)
        expected = metric(chance(split_dataset(world, CLEAN).test).full, "HR@10")
        low, high = chance_bound(world.interactions.n_users, expected)
        found = metric(ranks.full, "HR@10")
        assert low <= found <= high, f"HR@10 = {found:.3f} on noise, outside {low:.3f}-{high:.3f}"

    def test_config_round_trip(self) -> None:
        """Value -> TOML -> value is the identity, for every preset."""
        from tacit.methods import METHODS

        for preset in METHODS[self.name].presets:
            experiment = resolve(self.name, plugins=self.plugins, preset=preset, seed=3)
            assert loads(dumps(experiment)) == experiment

    def test_scoring_twice_is_the_same(self) -> None:
        one = play(self.method(), self.world(ragged()), rounds=2).full
        two = play(self.method(), self.world(ragged()), rounds=2).full
        assert np.array_equal(one.above_H, two.above_H)


class FederatedTests(MethodTests):
    """For methods made of parts: engines agree, private stays private, order changes nothing.

    `server_makes` are leaves that a server makes anew each round, whether or not clients learn.
    """

    server_makes: ClassVar[frozenset[str]] = frozenset()
    engine_sets: ClassVar[tuple[str, ...]] = ("local.batch=16", "local.epochs=2", "backbone.dim=6")

    def small(self) -> Method:
        method: Method = self.method(self.engine_sets)
        return method

    def train(self) -> TrainView:
        return split_dataset(self.world(ragged()), CLEAN).train

    def still(self, method: Method) -> Method:
        """The method with all rates at zero."""
        local = method.local
        inner = local.inner if isinstance(local, Held) else local
        inner = replace(
            inner,  # type: ignore[type-var]
            model=replace(inner.model, rate=0.0),  # type: ignore[type-var]
            items=replace(inner.items, rate=0.0),  # type: ignore[type-var]
        )
        still = replace(local, inner=inner) if isinstance(local, Held) else inner
        server = method.server
        if isinstance(server, ServerSteps):
            server = ServerSteps(Sgd(0.0), Sgd(0.0), server.weights)
        return replace(method, local=still, server=server)

    def engines(self, dtype: torch.dtype) -> dict[str, CohortEngine]:
        engines = {"cohort": CohortEngine(dtype, block=7, fused="never")}
        if why_not_fused(algorithm_for(self.small(), self.train()), "cpu") is None:
            engines["fused"] = CohortEngine(dtype, fused="always")
        return engines

    def test_engines_agree_in_float64(self) -> None:
        reference = trace(self.small(), self.train(), LoopEngine(torch.float64))
        for name, engine in self.engines(torch.float64).items():
            found = trace(self.small(), self.train(), engine)
            for leaf, value in reference.end.items():
                allowed = 1e-10 * reference.change(leaf)
                assert same_to(value, found.end[leaf], allowed), f"{name} differs in {leaf}"
            assert abs(found.state.loss - reference.state.loss) < 1e-10

    def test_engines_agree_in_float32(self) -> None:
        reference = trace(self.small(), self.train(), LoopEngine())
        for name, engine in self.engines(torch.float32).items():
            found = trace(self.small(), self.train(), engine)
            for leaf, value in reference.end.items():
                allowed = 1e-4 * reference.change(leaf)
                assert same_to(value, found.end[leaf], allowed, ulps=4), f"{name}: {leaf}"

    def test_engines_keep_the_same_tuned_rows(self) -> None:
        reference = trace(self.small(), self.train(), LoopEngine(torch.float64)).state.tuned
        for engine in self.engines(torch.float64).values():
            tuned = trace(self.small(), self.train(), engine).state.tuned
            assert (tuned is None) == (reference is None)
            if tuned is None or reference is None:
                continue
            for user in range(self.train().n_users):
                item_R, row_RD = reference.of(user)
                found_R, found_RD = tuned.of(user)
                assert np.array_equal(item_R, found_R)
                assert torch.allclose(row_RD, found_RD, rtol=1e-9, atol=1e-9)

    def test_blocks_change_nothing(self) -> None:
        traces = [
            trace(self.small(), self.train(), CohortEngine(torch.float64, block=b, fused="never"))
            for b in (1, 5, 64)
        ]
        for leaf, value in traces[0].end.items():
            for other in traces[1:]:
                assert same_to(value, other.end[leaf], 1e-10 * traces[0].change(leaf))

    def test_order_of_users_changes_nothing(self) -> None:
        train = self.train()
        order_U = np.random.default_rng(0).permutation(train.n_users)
        moved = TrainView(
            train.n_items,
            train.positives.take(order_U),
            train.user_key_U[order_U],
            train.hidden_from_negatives.take(order_U),
            train.content,
        )
        for name, engine in self.engines(torch.float64).items():
            one, two = trace(self.small(), train, engine), trace(self.small(), moved, engine)
            for leaf, value in one.end.items():
                here = value[torch.from_numpy(order_U)] if leaf in one.state.private else value
                assert same_to(here, two.end[leaf], 1e-10 * one.change(leaf)), f"{name}: {leaf}"

    def test_threads_change_not_a_bit(self) -> None:
        if "fused" not in self.engines(torch.float64):
            return
        crowd = split_dataset(self.world(ragged(n_users=150, n_items=40)), CLEAN).train
        method = self.small()
        assert_threads_change_nothing(lambda engine: trace(method, crowd, engine, rounds=2))

    def test_private_stays_private(self) -> None:
        """An upload holds shared leaves only, and nothing else has a way out."""
        train, method = self.train(), self.small()
        algorithm = algorithm_for(method, train)
        state = initial_state(algorithm, train, seed=0)
        draws = draw_block(
            train,
            np.array([2]),
            samples_per_user(train, method.sampling),
            method.sampling,
            batch=method.local.batch,
            epochs=method.local.epochs,
            seed=0,
            round_number=1,
            all_rows=method.sync.rows == "all",
        )
        private = {leaf: value[2] for leaf, value in state.private.items()}
        past = past_of_block(train, np.array([2]), draws)
        known = past if method.items.reads_history else None
        result = local_update(algorithm, state.shared, private, {}, draws, 1, past=known)
        sent = set(result.upload.change)
        assert sent == set(algorithm.uploads) <= set(algorithm.shared)
        if not isinstance(method.server, TableRule) and not isinstance(method.sync, Guided):
            only_read = method.sync.needs if isinstance(method.sync, TablePenalised) else ()
            assert sent == set(algorithm.shared) - set(only_read)
        assert not set(result.upload.change) & set(algorithm.private)

    def test_zero_rates_are_the_identity(self) -> None:
        still = self.still(self.small())
        engines: tuple[Engine, ...] = (LoopEngine(), *self.engines(torch.float32).values())
        for engine in engines:
            found = trace(still, self.train(), engine)
            for leaf, value in found.start.items():
                assert torch.equal(value, found.end[leaf]) == (leaf not in self.server_makes), leaf

    def test_who_sits_out_keeps_what_it_had(self) -> None:
        train = self.train()
        found = trace(
            self.small(), train, LoopEngine(), rounds=1, participation=Participation(ratio=0.5)
        )
        absent = ~found.state.fresh_U
        assert absent.any()
        for leaf in found.state.private:
            assert torch.equal(found.start[leaf][absent], found.end[leaf][absent])

    def test_padding_of_short_clients_changes_nothing(self) -> None:
        """The shortest client trains alone as it does beside the longest one."""
        train = self.train()
        everyone = trace(self.small(), train, CohortEngine(torch.float64, fused="never"), rounds=1)
        alone = trace(
            self.small(), train, CohortEngine(torch.float64, block=1, fused="never"), rounds=1
        )
        for leaf in everyone.state.private:
            assert torch.allclose(everyone.end[leaf], alone.end[leaf], rtol=0, atol=1e-12)
