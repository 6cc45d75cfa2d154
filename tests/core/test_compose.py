"""compose: the chains and numbers it refuses, and how many floats a method holds and sends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from torch import Tensor

from tacit.core.compose import ComposedAlgorithm, compose
from tacit.core.custom import CustomAlgorithm
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.core.parts import Transform
from tacit.core.types import Initializer, Task
from tacit.data.dataset import Modalities
from tacit.data.sampling import Sampling
from tacit.errors import TacitError
from tacit.methods import fedmf, fedncf, local_only, pfedrec
from tacit.parts.backbones import DotProduct, SharedMlp
from tacit.parts.channel import Clip, Dense, Gaussian, Laplace
from tacit.parts.items import IdOnly
from tacit.parts.server import Mean
from tacit.parts.sync import Isolated

ML_100K = Task(n_users=943, n_items=1682)
TABLE = 1682 * 32  # 53,824


def refusal(method: Method) -> str:
    with pytest.raises(TacitError) as caught:
        compose(method, Task(2, 3))
    return str(caught.value)


def test_noise_without_a_bound_is_allowed() -> None:
    compose(replace(fedmf(), channel=(Dense(), Gaussian())), Task(2, 3))


def test_a_clip_after_noise() -> None:
    method = replace(fedmf(), channel=(Dense(), Laplace(), Clip()))
    assert refusal(method) == (
        "Clip stands after noise in the channel, so it would cut the noise as well; put Clip "
        "before the noise."
    )


@pytest.mark.parametrize("channel", [(Laplace(),), (Clip(), Gaussian())])
def test_noise_without_dense(channel: tuple[Any, ...]) -> None:
    name = type(channel[-1]).__name__
    assert refusal(replace(fedmf(), channel=channel)) == (
        f"{name} needs a dense update before it; begin the channel with Dense()."
    )


def test_noise_where_nothing_is_sent() -> None:
    assert refusal(replace(local_only(), channel=(Dense(), Laplace()))) == (
        "Isolated sends nothing, so noise in the channel protects nothing; leave Laplace out of "
        "the channel."
    )


def test_shared_parameters_where_nothing_is_sent() -> None:
    assert refusal(replace(fedncf(dim=4, layers=(2, 1)), sync=Isolated())) == (
        "Isolated sends no changes after a round, so what clients learn of the shared parameter "
        "'mlp.b0' would be lost; keep the scorer private (sets=['backbone.scorer=private']), or "
        "use Replace()."
    )


def test_noise_with_weights_by_examples() -> None:
    method = replace(
        fedmf(), channel=(Dense(), Clip(), Gaussian()), server=Mean(weights="examples")
    )
    assert refusal(method) == (
        "Noise in the channel is drawn for clients that count for at most one, but the server "
        "weights them by their examples; bound the weights (sets=['server.cap=100']), or let "
        "clients count alike (sets=['server.weights=uniform'])."
    )
    compose(replace(method, server=Mean("examples", cap=100)), Task(2, 3))


def test_what_is_allowed_is_allowed() -> None:
    for channel in (
        (),
        (Dense(),),
        (Clip(),),
        (Dense(), Clip(), Gaussian()),
        (Clip(order=1), Dense(), Laplace()),
        (Dense(), Laplace()),
    ):
        compose(replace(fedmf(), channel=channel), Task(2, 3))
    compose(replace(fedmf(), server=Mean(weights="examples")), Task(2, 3))
    compose(replace(local_only(), channel=(Dense(), Clip())), Task(2, 3))


def test_persistent_items() -> None:
    local = replace(fedmf().local, items=Adam(lifetime="persistent"))
    assert refusal(replace(fedmf(), local=local)) == (
        "local.items keeps its optimiser state for ever, but a client's item rows change from "
        "round to round; begin it anew in every round (sets=['local.items.lifetime=round'])."
    )
    kept = replace(fedmf().local, model=Adam(lifetime="persistent"))
    compose(replace(fedmf(), local=kept), Task(2, 3))


@pytest.mark.parametrize("group", ["model", "items"])
@pytest.mark.parametrize("kind", [Sgd, Adam])
@pytest.mark.parametrize("rate", [-0.1, math.nan, math.inf])
def test_rates_that_are_no_rates(group: str, kind: type, rate: float) -> None:
    local = replace(fedmf().local, **{group: kind(rate=rate)})
    assert refusal(replace(fedmf(), local=local)) == (
        f"local.{group} has a rate of {rate} in round 1; it must be finite and not negative."
    )


@pytest.mark.parametrize(
    ("optimiser", "rate"),
    [
        (Sgd(rate=1.0, decay=-1.0), "-1.0"),
        (Sgd(rate=1.0, decay=math.nan), "nan"),
        (Adam(rate=1.0, decay=math.inf), "inf"),
    ],
)
def test_a_decay_that_makes_no_sense_shows_in_the_second_round(optimiser: Any, rate: str) -> None:
    local = replace(fedmf().local, model=optimiser)
    assert refusal(replace(fedmf(), local=local)).startswith(
        f"local.model has a rate of {rate} in round 2;"
    )


def test_a_rate_of_zero_is_allowed() -> None:
    compose(replace(fedmf(), local=replace(fedmf().local, model=Sgd(rate=0.0))), Task(2, 3))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (fedmf(dim=0), "backbone.dim is 0; it must be at least 1."),
        (
            replace(fedmf(), local=replace(fedmf().local, epochs=0)),
            "local.epochs is 0; it must be at least 1.",
        ),
        (
            replace(fedmf(), local=replace(fedmf().local, batch=0)),
            "local.batch is 0; it must be at least 1.",
        ),
        (
            replace(fedmf(), sampling=Sampling(negatives=0)),
            "sampling.negatives is 0; it must be at least 1.",
        ),
    ],
)
def test_counts_of_nothing(method: Method, sentence: str) -> None:
    assert refusal(method) == sentence


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_gradient_clip_must_be_positive(bound: float) -> None:
    local = replace(fedmf().local, gradient_clip=bound)
    assert refusal(replace(fedmf(), local=local)) == (
        f"local.gradient_clip is {bound}; it must be positive, or left out."
    )


@pytest.mark.parametrize("layers", [(), (4,), (0, 1), (4, -2, 1)])
def test_a_tower_that_does_not_end_in_one_logit(layers: tuple[int, ...]) -> None:
    with pytest.raises(TacitError, match="positive widths and end with 1"):
        SharedMlp(dim=4, layers=layers)


@dataclass(frozen=True)
class SharesTheUser(IdOnly):
    """An encoder that makes a shared parameter by the name of a private one."""

    def shared(self, width: int, content: Modalities | None) -> dict[str, Initializer]:
        return {"user": Initializer((2,))}


def test_a_parameter_is_shared_or_private() -> None:
    assert refusal(Method(DotProduct(2), items=SharesTheUser())) == (
        "Parameter 'user' is made both as shared and as private; a parameter is one or the other: "
        "rename it in one of the two parts."
    )


@pytest.mark.parametrize(
    ("method", "on_client", "exchanged"),
    [
        (fedmf(), TABLE + 32, TABLE),
        (pfedrec(), TABLE + 33, TABLE),
        (fedncf(layers=(32, 1)), TABLE + 32 + 2113, TABLE + 2113),
        (fedncf(), TABLE + 32 + 2753, TABLE + 2753),
        (local_only(), TABLE + 33, 0),
    ],
)
def test_floats_of_ml_100k(method: Method, on_client: int, exchanged: int) -> None:
    algorithm = compose(method, ML_100K)
    assert TABLE == 53_824
    assert algorithm.floats_on_client == on_client
    assert algorithm.floats_up == exchanged


def test_parameters_and_their_optimisers() -> None:
    algorithm = compose(fedncf(dim=4, layers=(2, 1)), Task(2, 3))
    assert algorithm.model_parameters == ("mlp.b0", "mlp.b1", "mlp.w0", "mlp.w1", "user")
    assert set(algorithm.private) == {"user"}
    assert algorithm.shared["items"].shape == (3, 4)
    assert algorithm.optimiser("items") is algorithm.method.local.items
    assert algorithm.optimiser("mlp.w0") is algorithm.method.local.model
    alone = compose(local_only(dim=4), Task(2, 3))
    assert alone.row_parameters == ("items.own",)
    assert alone.shared == {}
    assert alone.private["items.own"].same


def test_an_algorithm_is_not_changed_behind_the_back_of_fast_engines() -> None:
    """They have its loss, its update and its scores written down on their own."""
    names = ("update", "score", "weight", "bound")
    for base, own in ((ComposedAlgorithm, "loss"), (CustomAlgorithm, "ragged")):
        for name in (*names, own):
            with pytest.raises(TacitError, match=f"Mine writes '{name}' anew, which the fast"):
                type("Mine", (base,), {name: lambda self, *_: None})
            with pytest.raises(TacitError, match=f"Mine writes '{name}' anew, which the fast"):
                type("Mine", (type("Mixed", (), {name: lambda self, *_: None}), base), {})
        assert issubclass(type("Watched", (base,), {"step": base.step, "more": 1}), base)
    with pytest.raises(TacitError, match="Mine writes '_claimed' anew"):
        type("Mine", (CustomAlgorithm,), {"_claimed": lambda self, *_: None})


def test_a_link_whose_factor_nobody_would_ask_for_is_refused() -> None:
    @dataclass(frozen=True)
    class Half(Transform):
        def factor(self, norm: Tensor) -> Tensor:
            return norm.new_full(norm.shape, 0.5)

    assert "Half writes `factor` and not `order`" in refusal(
        replace(fedmf(), channel=(Dense(), Half()))
    )

    @dataclass(frozen=True)
    class HalfOfNorm(Half):
        order: int = 2  # type: ignore[assignment]

    compose(replace(fedmf(), channel=(Dense(), HalfOfNorm())), ML_100K)

    @dataclass(frozen=True)
    class Perhaps(Half):
        on: bool = False

        @property
        def order(self) -> int | None:
            return 2 if self.on else None

    compose(replace(fedmf(), channel=(Dense(), Perhaps())), ML_100K)  # off on purpose
