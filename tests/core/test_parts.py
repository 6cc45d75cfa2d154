"""Base classes of parts: what a new part need not write, and what a slot refuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tacit.core.capabilities import is_ground, overrides, written_step
from tacit.core.compose import compose
from tacit.core.method import SLOTS, Method
from tacit.core.optim import Adam, Optimiser, Sgd, WrittenStep
from tacit.core.parts import (
    Backbone,
    ColdStart,
    ItemEncoder,
    Local,
    Objective,
    Server,
    ServerRule,
    Sync,
    TableRule,
    Transform,
)
from tacit.core.registry import PARTS, default
from tacit.core.types import Initializer, Params, Part, Task
from tacit.errors import TacitError
from tacit.methods import fedmf
from tacit.parts.backbones import DotProduct
from tacit.parts.graph import GraphMean
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.items import Appended, IdOnly
from tacit.parts.local import Alternate, GradientsOnly, Joint, Reconstruct
from tacit.parts.mixture import Mixture
from tacit.parts.server import Mean, ServerSteps, TablesBeside
from tacit.parts.sync import Additive, Anchored, Proximal, Replace
from tacit.testing.paths import assert_paths_agree, small_train


@dataclass(frozen=True)
class Squared(Objective):
    """A loss with one method."""

    def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor:
        return ((logit_N - label_N).square() * weight_N).sum()


@dataclass(frozen=True)
class Signed(Optimiser):
    """An optimiser with one method."""

    rate: float = 0.01

    def update(
        self, value: Tensor, gradient: Tensor, state: Params, rate: float
    ) -> tuple[Tensor, Params]:
        return value - rate * gradient.sign(), state


@dataclass(frozen=True)
class Summed(Backbone):
    """A scorer with a width that has no default."""

    dim: int

    def item_init(self) -> Initializer:
        return Initializer((self.dim,), "normal", 0.1)

    def score(self, p: Params, x_ND: Tensor) -> Tensor:
        return x_ND.sum(-1)


@dataclass(frozen=True)
class Plainest(Local):
    """A way to train with two optimisers and nothing else."""

    model: Optimiser = Sgd(0.1)
    items: Optimiser = Sgd(0.1)


class AsItIs(ItemEncoder):
    pass


class SentBack(Sync):
    pass


class Added(ServerRule):
    pass


class Unchanged(Transform):
    pass


def test_the_smallest_parts_make_a_method_that_trains_alike_on_all_paths() -> None:
    method = Method(
        Summed(4),
        AsItIs(),
        SentBack(),
        Plainest(),
        Squared(),
        channel=(Unchanged(),),
        server=Added(),
    )
    moved = assert_paths_agree(method, small_train())
    assert not torch.equal(moved.start["items"], moved.end["items"])
    signs = replace(method, local=Plainest(Signed(), Signed()))
    assert_paths_agree(signs, small_train())


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot not in ("channel", "cold")])
def test_a_part_of_another_kind_is_refused_by_its_slot(slot: str) -> None:
    kind = SLOTS[slot]
    with pytest.raises(TacitError) as caught:
        replace(fedmf(), **{slot: Part()})
    assert str(caught.value).startswith(f"method.{slot} is ")
    assert str(caught.value).endswith(
        f"it must be a {kind.__name__}: let its class subclass {kind.__module__}.{kind.__name__}."
    )


def test_a_channel_is_a_tuple_of_links_and_a_generator_may_be_missing() -> None:
    for channel in ([], (Mean(),), (None,)):
        with pytest.raises(TacitError, match=r"method\.channel is .*; it must be a "):
            replace(fedmf(), channel=channel)  # type: ignore[arg-type]
    with pytest.raises(TacitError, match=r"method\.cold is .*; it must be a ColdStart"):
        replace(fedmf(), cold=Mean())  # type: ignore[arg-type]
    assert replace(fedmf(), cold=None) == fedmf()


def test_something_like_a_part_is_refused_with_the_class_to_subclass() -> None:
    class LooksLikeOne:
        def loss(self, logit_N: Tensor, label_N: Tensor, weight_N: Tensor) -> Tensor:
            return logit_N.sum()

    with pytest.raises(TacitError, match=r"subclass tacit\.core\.parts\.Objective\.$"):
        replace(fedmf(), objective=LooksLikeOne())  # type: ignore[arg-type]


def test_a_setting_that_all_parts_of_a_kind_have_needs_a_default() -> None:
    with pytest.raises(TacitError, match="The field 'epochs' of Hurried has no default"):

        @dataclass(frozen=True)
        class Hurried(Local):
            epochs: int


def test_a_left_out_slot_holds_what_the_registry_names() -> None:
    method = Method(DotProduct(4))
    assert method == Method(DotProduct(4), IdOnly(), Replace(), Joint(), server=Mean())
    for slot in ("items", "sync", "local", "objective", "channel", "server"):
        assert getattr(method, slot) == default(slot)
    for part in (method.items, method.sync, method.local, method.server):
        assert is_ground(part)


ABLE: list[tuple[Any, str]] = [
    (AdaptiveGuidance(), "guidance"),
    (Anchored(), "penalises_tables"),
    (Proximal(), "penalises_tables"),
    (GraphMean(), "tables"),
    (TablesBeside(), "tables"),
    (TablesBeside(), "sums"),
    (TablesBeside(), "gradients"),
    (Mean(), "sums"),
    (ServerSteps(), "sums"),
    (ServerSteps(), "gradients"),
    (Mixture(), "viewed"),
    (Mixture(), "routed"),
    (Appended(), "viewed"),
    (Reconstruct(), "fitting"),
    (GradientsOnly(Reconstruct()), "fitting"),
    (GradientsOnly(Reconstruct()), "inner"),
    (GradientsOnly(), "inner"),
]
ABILITIES: dict[type, tuple[str, ...]] = {
    Sync: ("guidance", "penalises_tables"),
    Server: ("tables", "sums", "gradients"),
    ItemEncoder: ("viewed", "routed"),
    Local: ("fitting", "inner"),
}


def test_abilities_are_there_or_none() -> None:
    parts = [part for part, _ in ABLE] + [Replace(), Additive(), IdOnly(), Joint(), Alternate()]
    for part in parts:
        kind = next(kind for kind in ABILITIES if isinstance(part, kind))
        for ability in ABILITIES[kind]:
            has = (part, ability) in ABLE
            assert bool(getattr(part, ability)) == has, (part, ability)


def test_every_registered_part_has_a_base_class() -> None:
    kinds = (*SLOTS.values(), Optimiser)
    found = {
        name: PARTS[name] for name in PARTS if PARTS[name].__module__.startswith("tacit.parts")
    }
    views = {name for name in found if name.endswith("_view")}
    assert views
    assert len(found) > 30
    for name, part in found.items():
        assert issubclass(part, Part)
        assert name in views or issubclass(part, kinds), name


def test_a_subclass_does_not_inherit_what_its_class_said_of_itself() -> None:
    @dataclass(frozen=True)
    class Mine(Replace):
        pass

    @dataclass(frozen=True)
    class Warmer(Adam):
        pass

    assert is_ground(Replace(keep=True))
    assert not is_ground(Mine())
    assert written_step(Sgd(weight_decay=0.5)) == WrittenStep(0.5)
    assert written_step(Adam()) == WrittenStep(0.0, True, 0.9, 0.999, 1e-8)
    assert written_step(Warmer()) is None


def test_a_part_refuses_neighbours_by_itself() -> None:
    @dataclass(frozen=True)
    class WidthOfFour(Replace):
        def check(self, method: Method) -> None:
            if method.backbone.dim != 4:
                raise TacitError("WidthOfFour wants rows of width 4; set backbone.dim.")

    compose(replace(fedmf(dim=4), sync=WidthOfFour()), Task(2, 3))
    with pytest.raises(TacitError, match="wants rows of width 4"):
        compose(replace(fedmf(dim=5), sync=WidthOfFour()), Task(2, 3))


def test_what_has_no_default_says_so() -> None:
    task: Any = torch.zeros(1)
    for call in (
        lambda: Objective().loss(task, task, task),
        lambda: Optimiser().update(task, task, {}, 0.1),
        lambda: Backbone().score({}, task),
        lambda: TableRule().aggregate_tables(task, {}, task),
        lambda: ColdStart().generate({}, task, task),
    ):
        with pytest.raises(NotImplementedError):
            call()
    assert not overrides(Replace(), Sync, "read")
