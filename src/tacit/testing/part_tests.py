"""Batteries for single parts; each kind of part has one, and all of them compare the paths.

class TestSgd(OptimiserTests):
    optimiser = Sgd(0.1)

A part is right where the loop, the path that an engine takes by itself and the general blocks end
in the same numbers, and where scores are those of one client alone: a fast path that ignored the
part would show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from tacit.core.capabilities import aggregates_in_place, steps_entrywise
from tacit.core.client import encoded
from tacit.core.codec import decode, encode
from tacit.core.method import Method
from tacit.core.optim import Optimiser, Sgd
from tacit.core.parts import (
    Backbone,
    ItemEncoder,
    Local,
    Objective,
    Server,
    Sync,
    Transform,
)
from tacit.core.types import (
    ITEMS,
    OWN_ITEMS,
    Initializer,
    Params,
    UploadDraws,
    draw_parameter,
)
from tacit.data.protocol import CLEAN
from tacit.data.split import split_dataset
from tacit.data.views import TrainView
from tacit.engines.loop import LoopEngine
from tacit.methods import fedmf
from tacit.parts.backbones import DotProduct, LinearHead, MlpHead, SharedMlp
from tacit.parts.local import Alternate, GradientsOnly, Joint
from tacit.parts.server import Mean, ServerSteps
from tacit.parts.sync import Isolated, Replace
from tacit.testing.paths import assert_paths_agree, small_train
from tacit.testing.play import trace
from tacit.testing.synthetic import ragged

MODEL, ROWS = Sgd(0.1), Sgd(0.1, per_item=2.0)
JOINT = Joint(MODEL, ROWS, epochs=2, batch=16)
ALTERNATE = Alternate(MODEL, ROWS, epochs=2, batch=16)


class PartTests:
    """What the batteries of all parts have in common."""

    content: ClassVar[bool] = False  # whether the dataset has text and images
    relative: ClassVar[float] = (
        1e-10  # difference allowed, relative to a parameter's largest change
    )

    def part(self) -> Any:
        """The part itself."""
        raise NotImplementedError

    def methods(self) -> dict[str, Method]:
        """Methods with the part in its slot, beside parts that kernels claim."""
        raise NotImplementedError

    def train(self) -> TrainView:
        return small_train(self.content)

    def test_engines_agree(self) -> None:
        """Loop, automatic path and general blocks: the same state, and scores by the definition."""
        for method in self.methods().values():
            assert_paths_agree(method, self.train(), relative=self.relative)

    def test_round_trip(self) -> None:
        assert decode(encode(self.part()), type(self.part())) == self.part()


class BackboneTests(PartTests):
    """For a scorer: it scores row by row, and is linear where it says so."""

    backbone: ClassVar[Backbone]

    def part(self) -> Backbone:
        return self.backbone

    def methods(self) -> dict[str, Method]:
        methods = {"joint": Method(self.backbone, local=JOINT)}
        methods["tuned"] = Method(self.backbone, sync=Replace(keep=True), local=ALTERNATE)
        if not self.backbone.shared():
            methods["alone"] = Method(self.backbone, sync=Isolated(), local=JOINT)
        return methods

    def parameters(self) -> Params:
        declared = {**self.backbone.shared(), **self.backbone.private()}
        nobody = np.zeros(1, np.uint64)
        return {
            name: draw_parameter(
                replace(init, distribution="normal"), 0, 1, place, nobody, torch.float64
            )[0]
            for place, (name, init) in enumerate(declared.items())
        }

    def test_rows_are_scored_one_by_one(self) -> None:
        generator = torch.Generator().manual_seed(0)
        x_ND = torch.randn(5, self.backbone.dim, generator=generator, dtype=torch.float64)
        whole, some = (self.backbone.score(self.parameters(), x) for x in (x_ND, x_ND[[3, 1]]))
        assert torch.allclose(whole[[3, 1]], some, rtol=1e-12, atol=1e-12)

    def test_linear_is_what_it_says(self) -> None:
        if self.backbone.linear is None:
            return
        p, (vector, bias) = self.parameters(), self.backbone.linear
        x_ND = torch.eye(self.backbone.dim, dtype=torch.float64)
        expected = p[vector] if bias is None else p[vector] + p[bias]
        assert torch.allclose(self.backbone.score(p, x_ND), expected, rtol=1e-12, atol=1e-12)


class ItemTests(PartTests):
    """For an item encoder that the backbones read at width `dim`."""

    items: ClassVar[ItemEncoder]
    dim: ClassVar[int] = 4
    content: ClassVar[bool] = True

    def part(self) -> ItemEncoder:
        return self.items

    def methods(self) -> dict[str, Method]:
        head = Method(LinearHead(self.dim), self.items, local=JOINT)
        held = replace(
            head, local=GradientsOnly(ALTERNATE), server=ServerSteps(Sgd(0.5), Sgd(0.05))
        )
        tower = replace(held, backbone=SharedMlp(self.dim, (3, 1)))
        return {"changes": head, "gradients": held, "perceptron": tower}


class SyncTests(PartTests):
    """For a synchronisation rule: it reads rows one by one, and says honestly what it sends.

    `server` is the server that it needs.
    """

    sync: ClassVar[Sync]
    server: ClassVar[Server] = Mean()

    def part(self) -> Sync:
        return self.sync

    def methods(self) -> dict[str, Method]:
        rule = Method(DotProduct(4), sync=self.sync, server=self.server, local=JOINT)
        return {
            "dot": rule,
            "head": replace(rule, backbone=LinearHead(4)),
            "head in turns": replace(rule, backbone=LinearHead(4), local=ALTERNATE),
            "perceptron": replace(rule, backbone=MlpHead(4, (3, 1))),
        }

    def test_reading_is_row_wise(self) -> None:
        generator = torch.Generator().manual_seed(0)
        rows = {name: torch.randn(5, 3, generator=generator) for name in (ITEMS, OWN_ITEMS)}
        whole = self.sync.read(rows)
        some = self.sync.read({name: value[[3, 1]] for name, value in rows.items()})
        assert torch.equal(whole[[3, 1]], some)

    def test_the_global_table_moves_only_if_something_is_sent(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        method = replace(fedmf(dim=4), sync=self.sync, server=self.server)
        found = trace(method, train, LoopEngine(), rounds=1)
        moved = ITEMS in found.end and not torch.equal(found.start[ITEMS], found.end[ITEMS])
        assert moved == self.sync.sends(1)


class LocalTests(PartTests):
    """For a way to train locally; `server` is the one that understands what it sends."""

    local: ClassVar[Local]
    server: ClassVar[Server] = Mean()

    def part(self) -> Local:
        return self.local

    def methods(self) -> dict[str, Method]:
        head = Method(LinearHead(4), local=self.local, server=self.server)
        methods = {"head": head, "perceptron": replace(head, backbone=SharedMlp(4, (3, 1)))}
        if self.local.sends == "change":
            methods["tuned"] = replace(head, sync=Replace(keep=True))
            methods["alone"] = replace(head, sync=Isolated())
        return methods

    def test_phases_name_what_moves(self) -> None:
        for epoch in range(self.local.epochs):
            phases = self.local.phases(epoch)
            assert phases
            assert all({*phase.groups} <= {"model", "items"} for phase in phases)


class ObjectiveTests(PartTests):
    """For a loss: samples of weight 0 are padding, and change nothing."""

    objective: ClassVar[Objective]

    def part(self) -> Objective:
        return self.objective

    def methods(self) -> dict[str, Method]:
        dot = Method(DotProduct(4), local=JOINT, objective=self.objective)
        return {
            "dot": dot,
            "perceptron": replace(dot, backbone=MlpHead(4, (3, 1)), local=ALTERNATE),
        }

    def test_padding_changes_nothing(self) -> None:
        logit_N = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64)
        label_N = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        weight_N = torch.full((3,), 1 / 3, dtype=torch.float64)
        alone = self.objective.loss(logit_N, label_N, weight_N)
        padded = [
            torch.cat([value, value.new_tensor(more)])
            for value, more in ((logit_N, [9.0, -9.0]), (label_N, [0.0, 1.0]), (weight_N, [0, 0]))
        ]
        assert torch.allclose(self.objective.loss(*padded), alone, rtol=1e-12, atol=0)


class ChannelTests(PartTests):
    """For a link of the channel: neutral at its neutral setting, bounded, equal across engines.

    `before` are the links it needs in front of it.
    """

    link: ClassVar[Transform]
    neutral: ClassVar[Transform]
    before: ClassVar[tuple[Transform, ...]]

    def part(self) -> Transform:
        return self.link

    def methods(self) -> dict[str, Method]:
        channel = (*self.before, self.link)
        dot = Method(DotProduct(4), local=JOINT, channel=channel)
        return {"dot": dot, "perceptron": replace(dot, backbone=SharedMlp(4, (3, 1)))}

    def test_neutral_setting_changes_nothing(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        plain = replace(fedmf(dim=4), channel=self.before)
        neutral = replace(plain, channel=(*self.before, self.neutral))
        one, two = trace(plain, train, LoopEngine()), trace(neutral, train, LoopEngine())
        assert torch.equal(one.end[ITEMS], two.end[ITEMS])

    def test_it_does_something(self) -> None:
        train = split_dataset(ragged(), CLEAN).train
        plain = replace(fedmf(dim=4), channel=self.before)
        linked = replace(plain, channel=(*self.before, self.link))
        one, two = trace(plain, train, LoopEngine()), trace(linked, train, LoopEngine())
        assert not torch.equal(one.end[ITEMS], two.end[ITEMS])

    def test_factor_only_shrinks(self) -> None:
        norm = torch.tensor([0.0, 0.5, 1e3], dtype=torch.float64)
        factor = self.link.factor(norm)
        assert ((factor > 0) & (factor <= 1)).all()

    def test_noise_is_keyed(self) -> None:
        """The same generator gives the same noise: a run can be repeated."""
        one = self.link.add_noise(np.zeros((3, 2)), 4, np.random.default_rng(1))
        two = self.link.add_noise(np.zeros((3, 2)), 4, np.random.default_rng(1))
        assert np.array_equal(one, two)

    def test_encoding_is_a_pure_function(self) -> None:
        """The same draws give the same upload, in its old shape, and the change stays as it was."""
        generator = torch.Generator().manual_seed(0)
        sent = {name: Initializer(shape) for name, shape in ((ITEMS, (7, 4)), ("mlp.b", (5,)))}
        change = {
            name: torch.randn(init.shape, generator=generator, dtype=torch.float64)
            for name, init in sent.items()
        }
        before = {name: value.clone() for name, value in change.items()}
        own = {
            name: torch.ones(init.shape, dtype=torch.float64)
            for name, init in self.link.private(sent).items()
        }
        draws = UploadDraws(seed=3, round_number=2, user_key=99)
        (one, kept), (two, again) = (encoded((self.link,), change, own, draws) for _ in range(2))
        assert kept.keys() == own.keys()
        for name, value in change.items():
            assert torch.equal(value, before[name])
            assert one[name].shape == value.shape
            assert torch.equal(one[name], two[name])
        assert all(torch.equal(kept[name], again[name]) for name in kept)
        assert all(float(own[name].min()) == 1 for name in own), "what was kept is not written over"


class ServerTests(PartTests):
    """For a server rule, with the rule of synchronisation that goes with it."""

    server: ClassVar[Server]
    sync: ClassVar[Sync] = Replace()
    local: ClassVar[Local] = JOINT

    def part(self) -> Server:
        return self.server

    def methods(self) -> dict[str, Method]:
        head = Method(LinearHead(4), sync=self.sync, local=self.local, server=self.server)
        return {"head": head, "perceptron": replace(head, backbone=MlpHead(4, (3, 1)))}

    def test_aggregation_in_place_is_aggregation(self) -> None:
        """What is written where tables lie is what `aggregate_tables` gives back for copies of
        them."""
        server = self.server.tables
        if server is None or not aggregates_in_place(server):
            return
        generator = torch.Generator().manual_seed(0)
        own = torch.randn(6, 8, 3, generator=generator, dtype=torch.float64)
        table = self.sync.shared(DotProduct(3).item_init())[ITEMS]
        table = replace(table, shape=(8, 3))
        shared = {name: torch.zeros(init.shape) for name, init in server.shared(table).items()}
        shared[ITEMS] = own[0] + 1
        made = {name: torch.zeros_like(own) for name in server.private(table)}
        users = torch.tensor([5, 0, 3, 2])
        aggregated = server.aggregate_tables(own[users], shared, np.random.default_rng(3))
        found = {OWN_ITEMS: own.clone(), **made}
        parameters = server.aggregate_in_place(found, users, shared, np.random.default_rng(3))
        for name, value in aggregated.shared.items():
            assert torch.equal(parameters[name], value)
        for name, value in aggregated.private.items():
            assert torch.equal(found[name][users], value)


class OptimiserTests(PartTests):
    """For an optimiser of clients: it steps many at once as it steps one."""

    optimiser: ClassVar[Optimiser]

    def part(self) -> Optimiser:
        return self.optimiser

    def methods(self) -> dict[str, Method]:
        rows = ROWS if self.optimiser.lifetime == "persistent" else self.optimiser
        both = Joint(self.optimiser, rows, epochs=2, batch=16)
        head = Method(LinearHead(4), local=both)
        held = GradientsOnly(Joint(MODEL, ROWS, batch=16))
        return {
            "head": head,
            "alone": replace(head, sync=Isolated()),
            "server": replace(head, local=held, server=ServerSteps(self.optimiser, MODEL)),
        }

    def test_entrywise_is_what_it_says(self) -> None:
        """Clients that are stacked, and padded, step as they do alone."""
        if not steps_entrywise(self.optimiser):
            return
        generator = torch.Generator().manual_seed(0)
        value, one, two = torch.randn(3, 4, 2, 5, generator=generator, dtype=torch.float64)
        state = self.optimiser.init(value, 1)
        alone = [self.optimiser.init(row, 0) for row in value]
        each, stacked = list(value), value
        for gradient in (one, two):
            stacked, state = self.optimiser.update(stacked, gradient, state, 0.1)
            for place in range(len(each)):
                stepped = self.optimiser.update(each[place], gradient[place], alone[place], 0.1)
                each[place], alone[place] = stepped
        assert torch.allclose(stacked, torch.stack(each), rtol=1e-12, atol=1e-12)
