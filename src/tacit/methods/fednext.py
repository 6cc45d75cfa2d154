"""FedNext (ours): what comes next, from sums over devices that know the order of their histories.

A history runs s_1 .. s_n from the earliest item to the latest, and e_i is the unit vector of item
i. At each place t a device has a decayed past and a few next items:

    p_t = sum over j <= t of 2^(-(t - j) / past) e_{s_j}
    y_t = sum over k = 1 .. horizon of (1/k) e_{s_{t+k}}

Its transitions are C_u = sum_t p_t y_t^T. An entry depends on the distance x of two items alone:
C_u = sum over j < m of g(m - j) e_{s_j} e_{s_m}^T with g(x) = sum over k <= min(horizon, x) of
2^(-(x - k) / past) / k. Devices send C_u as rows of their items, and the server adds up.

- `learns = "transitions"` ranks with the sum itself, C_ij / (row sum^a · column sum^b).
- `learns = "ridge"` has a second sum A = sum_u sum_t p_t p_t^T, over the places that have a next
  item, and solves (A + λI)^-1 C. Ridges are relative to the mean diagonal of A.
- A share of EASE above 0 needs a third sum, the Gram matrix. Both matrices are scaled to Frobenius
  norm 1 and added up; EASE has the same relative ridge.

A device ranks with its own decayed history times that matrix. The half-life of that decay is one
more setting of the grid: it costs no byte. Clients send in the first round only; every round is
the next setting of the grid (ridges, shares, powers, half-lives), and validation picks one.
What a grid leaves open was set by hand: the powers and horizons after looks at the validation parts
of ML-100K, ML-1M and Amazon-Video-10, and `past = 1` between what MovieLens and Amazon prefer.

With `width` the sum is (I, W) instead of (I, I). `sketch = "range"` takes two releases: devices
send C_u times a public random matrix, the server makes an orthonormal basis Q of the sum, and
devices then send C_u^T Q, so that C is about Q (Q^T C). "gaussian" and "count" (signed buckets)
take one release and rank with the random matrix itself. They are far less exact, and worse still
with a power of the column sums, which makes the noise of rare items louder. A narrow sum is made
for one pair of powers, the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit import streams
from tacit.core.algorithm import Bound, ClientData
from tacit.core.custom import CustomMethod, carried_over, without_meaning
from tacit.core.ragged import RaggedBatch
from tacit.core.recency import Recency
from tacit.core.registry import register
from tacit.core.types import Initializer, Params, Task
from tacit.data.dataset import Modalities
from tacit.data.views import Lists
from tacit.errors import TacitError, shown
from tacit.memory import require_memory
from tacit.methods.counts_first import SEEN
from tacit.methods.entry import METHODS, Chosen, Entry
from tacit.methods.fednext_ragged import (
    BOTH,
    NEXT,
    PAST,
    PairWeights,
    summed_pairs,
    summed_rows,
    weighed_rows,
)
from tacit.methods.private_pairs import PrivatePairs
from tacit.parts.cold.simple import Ridge
from tacit.privacy.guarantee import PrivacyRequest

Sketch = Literal["range", "gaussian", "count"]

TRANSITIONS, PASTS, GRAM = "transitions", "pasts", "gram"  # square sums
ROWS = "rows"  # the narrow sum, and two columns: the sums of rows and columns of the transitions
WEIGHT, LEFT, RIGHT, COLUMNS = "weight", "left", "right", "columns"  # what devices rank with
DECAY = "decay"  # 1 / half-life of the history when a device ranks
PRIVATE_RECENCY = Recency(half_life=2.0, floor=0.02)  # under a claim validation chooses none
KINDS = {TRANSITIONS: NEXT, PASTS: PAST, GRAM: BOTH}
GRIDS = ("half_lives", "ridges", "ease", "normalise")


class Setting(NamedTuple):
    """One point of the grid that validation chooses from."""

    ridge: float  # relative to the mean diagonal; not looked at where nothing is solved
    share: float  # of EASE
    powers: tuple[float, float]  # of the sums of rows and columns that transitions are divided by
    half_life: float  # of the history when a device ranks, in items


@register("fednext")
@dataclass(frozen=True)
class FedNext(CustomMethod):
    """Next items from one, two or three sums over devices.

    >>> two = (1.0, 2.0)
    >>> FedNext(half_lives=two).max_rounds, FedNext(width=8, half_lives=two).max_rounds
    (4, 3)
    >>> [FedNext().sends(round_number) for round_number in (1, 2)]
    [True, False]
    """

    chosen_on = SEEN
    learns: Literal["transitions", "ridge"] = "transitions"
    past: float = 1.0  # half-life of p_t, in items
    horizon: int = 10
    half_lives: tuple[float, ...] = (1.4, 2.8, 5.6)
    ridges: tuple[float, ...] = (1.0, 3.0, 10.0)
    ease: tuple[float, ...] = (0.0,)  # shares of EASE
    normalise: tuple[tuple[float, float], ...] = ((0.7, 0.2), (0.3, 0.0))  # pairs of a and b
    scale: Literal["none", "norm", "length"] = "none"
    width: int | None = None
    sketch: Sketch = "range"
    content: Ridge | None = None  # makes rows and columns of items that nobody has touched
    privacy: PrivacyRequest | None = None

    def __post_init__(self) -> None:
        if not 0 < self.past < np.inf or self.horizon < 1:
            raise TacitError(
                f"past is {shown(self.past)} and horizon {shown(self.horizon)}; past is a number "
                "of items above 0 and horizon at least 1."
            )
        for name, values in (("half_lives", self.half_lives), ("ridges", self.ridges)):
            if not values or not min(values) > 0:
                raise TacitError(f"{name} are {shown(values)}; give at least one, all above 0.")
        if not self.normalise or any(len(pair) != 2 for pair in self.normalise):
            raise TacitError(
                f"normalise is {shown(self.normalise)}; give at least one pair of powers, of the "
                "sums of rows and of columns: [[0.7, 0.2]]."
            )
        if not self.ease or not min(self.ease) >= 0:
            raise TacitError(f"ease is {shown(self.ease)}; give at least one share, none below 0.")
        if self.width is not None and self.width < 1:
            raise TacitError(f"width is {shown(self.width)}; it must be at least 1.")
        if self.content is not None and self.width is not None and self.sketch != "range":
            raise TacitError(
                f"sketch is {shown(self.sketch)}, whose columns are drawn for every item; content "
                "makes rows and columns of new items with sketch='range', or without a width."
            )
        if self.width is not None and self._solves:
            raise TacitError(
                f"width is {shown(self.width)}, which keeps no square table; a ridge and shares of "
                "EASE need those. Use learns='transitions' with ease=(0.0,), or no width."
            )

    # The grid

    @property
    def _solves(self) -> bool:
        return self.learns == "ridge" or max(self.ease) > 0

    @property
    def _releases(self) -> int:
        return 2 if self.width is not None and self.sketch == "range" else 1

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The grid; half-lives change fastest, since a new one needs no new matrix."""
        ridges: Sequence[float] = self.ridges if self._solves else (0.0,)
        powers = self.normalise if self.learns == "transitions" else ((0.0, 0.0),)
        if self.width is not None:  # a basis is made for one pair of powers
            powers = powers[:1]
        return tuple(Setting(*one) for one in product(ridges, self.ease, powers, self.half_lives))

    @property
    def settings_tried(self) -> int:
        return len(self.settings)

    def protected(self, request: PrivacyRequest) -> CustomMethod:
        """Near pairs from one noisy release, where transitions alone are learnt. The other forms
        keep their sums, with uploads of norm 1. Where validation may not choose, the first value is
        taken of grids that are the method's own or a preset's; those of others stay as they are."""
        if not self._solves and self.width is None and self.content is None:
            kept = {"recency": PRIVATE_RECENCY, **carried_over(self, PrivatePairs)}
            return PrivatePairs(**kept, privacy=request)
        if self.scale == "length":
            raise without_meaning(self, "scale", self.scale)
        bounded = replace(self, privacy=request, scale="norm")
        if request.selection == "uncovered":
            return bounded
        known = [{name: getattr(FedNext(), name) for name in GRIDS}, *PRESETS.values()]
        own = {
            name: getattr(self, name)[:1]
            for name in GRIDS
            if any(getattr(self, name) == values.get(name) for values in known)
        }
        return replace(bounded, **own)

    @property
    def max_rounds(self) -> int | None:
        return len(self.settings) + self._releases - 1

    def setting(self, round_number: int) -> Setting:
        """The setting of a round; rounds before the last release have the first."""
        place = max(round_number - self._releases, 0)
        return self.settings[min(place, len(self.settings) - 1)]

    # What is shared

    @property
    def reads_order(self) -> bool:
        return True

    @property
    def _sums(self) -> tuple[str, ...]:
        """The sums over devices."""
        if self.width is not None:
            return (ROWS,)
        wanted = {TRANSITIONS: True, PASTS: self.learns == "ridge", GRAM: max(self.ease) > 0}
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset(self._sums)

    def shared(self, task: Task) -> dict[str, Initializer]:
        items, decay = task.n_items, {DECAY: Initializer(())}
        if self.width is None:
            square = Initializer((items, items))
            return {**dict.fromkeys((*self._sums, WEIGHT), square), **decay}
        width = min(self.width, items)
        thin = Initializer((items, width))
        right = {RIGHT: thin} if self.sketch == "range" else {COLUMNS: Initializer((items,))}
        return {ROWS: Initializer((items, width + 2)), LEFT: thin, **right, **decay}

    def uploads(self, task: Task) -> frozenset[str]:
        return frozenset(self._sums)

    def sends(self, round_number: int) -> bool:
        return round_number <= self._releases

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        return {name: value for name, value in shared.items() if name not in self._sums}

    # One device

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        if not self.sends(round_number):
            return private, {}
        if self.width is None:
            n_items = len(received[WEIGHT])
            sent = {name: _spread(self._pairs(name, data), data, n_items) for name in self._sums}
        else:
            next_HH = self._pairs(TRANSITIONS, data)
            row_sum_H, column_sum_H = next_HH.sum(1), next_HH.sum(0)
            if round_number > 1:
                next_HH = next_HH.T
            projection_ID = self._projection(received, round_number).to(data.real_H)
            folded_HD = next_HH @ projection_ID[data.history_H]
            sums_H2 = torch.stack((row_sum_H, column_sum_H), dim=1)
            sent = {ROWS: torch.cat((folded_HD, sums_H2), dim=1)}
        factor = self._factor(sent, data)
        return private, {name: factor * value for name, value in sent.items()}

    def _pairs(self, name: str, data: ClientData) -> Tensor:
        """How much each pair of entries of the history counts in one of the sums."""
        assert data.order_H is not None
        real_HH = data.real_H[:, None] * data.real_H
        if name == GRAM:
            return real_HH
        order_H = data.order_H.to(data.real_H)
        distance_HH = order_H - order_H[:, None]
        if name == PASTS:
            # over the places t from the later of the two to the last but one
            later_HH = torch.maximum(order_H[:, None].expand_as(real_HH), order_H)
            lasting_HH = data.real_H.sum() - 1 - later_HH
            halving = -2.0 * np.log(2.0) / self.past
            sum_HH = torch.expm1(lasting_HH * halving) / np.expm1(halving)
            return real_HH * (-distance_HH.abs() / self.past).exp2() * sum_HH
        gain_HH = torch.zeros_like(real_HH)
        for step in range(1, self.horizon + 1):
            decayed_HH = (-(distance_HH - step).clamp(min=0) / self.past).exp2() / step
            gain_HH = gain_HH + (distance_HH >= step) * decayed_HH
        return real_HH * gain_HH

    def _projection(self, received: Params, round_number: int) -> Tensor:
        """What transitions are multiplied by: a public matrix first, then the server's basis."""
        if round_number > 1:
            return received[RIGHT]
        return public_projection(*received[LEFT].shape, self.sketch)

    def _factor(self, sent: Params, data: ClientData) -> Tensor:
        """What a device multiplies its tables by, all by the same."""
        one = torch.ones_like(data.real_H.sum())
        if self.scale == "none":
            return one
        if self.scale == "length":
            return one / (data.real_H.sum() - 1).clamp(min=1)
        # rows of an item that stands twice fall together
        same_HH = (data.history_H[:, None] == data.history_H) * data.real_H[:, None] * data.real_H
        square = sum(((same_HH @ row_HE) * row_HE).sum() for row_HE in sent.values()) + 0.0 * one
        return torch.where(square > 0, 1.0 / torch.where(square > 0, square, one).sqrt(), 0.0 * one)

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        weight_H = self._recency(received, data)
        if self.width is None:
            n_items = len(received[WEIGHT])
            past_I = weight_H.new_zeros(n_items).index_add(0, data.history_H, weight_H)
            return past_I @ received[WEIGHT]
        past_D = weight_H @ received[LEFT][data.history_H]
        return self._unfolded(received, past_D)

    def contributions(self, received: Params, data: ClientData) -> Tensor:
        """What each entry of the history brings to each item's logit, (H, I); logits are their
        sum."""
        weight_H1 = self._recency(received, data)[:, None]
        if self.width is None:
            return weight_H1 * received[WEIGHT][data.history_H]
        return self._unfolded(received, weight_H1 * received[LEFT][data.history_H])

    def _recency(self, received: Params, data: ClientData) -> Tensor:
        assert data.order_H is not None
        age_H = data.real_H.sum() - 1 - data.order_H
        return (-age_H * received[DECAY]).exp2() * data.real_H

    def _unfolded(self, received: Params, past_D: Tensor) -> Tensor:
        """Logits of all items from a narrow history, or from several."""
        if self.sketch == "range":
            return past_D @ received[RIGHT].T
        width = received[LEFT].shape
        return (past_D @ public_projection(*width, self.sketch).to(past_D).T) * received[COLUMNS]

    # The server

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        return upload

    @property
    def steps_on_gpu(self) -> bool:
        return True

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        now = self.setting(round_number)
        decay = {DECAY: torch.tensor(1.0 / now.half_life, dtype=torch.float64)}
        if self.width is not None:
            return {**shared, **self._narrow(shared, total, round_number), **decay}
        sums = {name: total.get(name, shared[name]) for name in self._sums}
        before = self.setting(round_number - 1)
        is_kept = round_number > 1 and now[:-1] == before[:-1]
        weight_II = shared[WEIGHT] if is_kept else self._weight(sums, now)
        return {**sums, WEIGHT: weight_II, **decay}

    def _weight(self, sums: Params, setting: Setting) -> Tensor:
        """The matrix that devices rank with."""
        next_II = sums[TRANSITIONS]
        if self._solves:
            require_memory(
                3 * next_II.numel() * 8,
                what=f"The item-to-item tables of fednext for {len(next_II)} items",
                hint="use learns='transitions' with ease=(0.0,), and width for thin tables",
            )
        if self.learns == "ridge":
            weight_II = torch.linalg.solve(_ridged(sums[PASTS], setting.ridge), next_II)
        else:
            row_power, column_power = setting.powers
            row_I = _power(next_II.sum(1), row_power)
            column_I = _power(next_II.sum(0), column_power)
            weight_II = next_II * row_I[:, None] * column_I
        if setting.share == 0:
            return weight_II
        inverse_II = torch.linalg.inv(_ridged(sums[GRAM], setting.ridge))
        ease_II = (-inverse_II / inverse_II.diagonal()).fill_diagonal_(0.0)
        return _unit(weight_II) + setting.share * _unit(ease_II)

    def _narrow(self, shared: Params, total: Params, round_number: int) -> Params:
        """The same from narrow sums: a left and a right half."""
        if ROWS not in total:
            return {}
        width = shared[LEFT].shape[1]
        sum_ID, (row_sum_I, column_sum_I) = total[ROWS][:, :width], total[ROWS][:, width:].T
        row_power, column_power = self.setting(round_number).powers
        row_I1 = _power(row_sum_I, row_power)[:, None]
        column_I = _power(column_sum_I, column_power)
        if self.sketch != "range":
            return {ROWS: total[ROWS], LEFT: row_I1 * sum_ID, COLUMNS: column_I}
        if round_number == 1:
            basis_ID = torch.linalg.qr(row_I1 * sum_ID)[0]
            return {ROWS: total[ROWS], LEFT: basis_ID, RIGHT: row_I1 * basis_ID}
        return {ROWS: total[ROWS], RIGHT: column_I[:, None] * sum_ID}

    # New items

    @property
    def ranks_unseen(self) -> bool:
        return self.content is not None

    def complete(self, shared: Params, content: Modalities) -> Params:
        """Rows and columns of untouched items, by a ridge from the content of the touched ones."""
        assert self.content is not None
        if self.width is None:
            touched_I = (shared[TRANSITIONS].sum(0) + shared[TRANSITIONS].sum(1)) > 0
        else:
            touched_I = shared[ROWS][:, -2:].sum(1) > 0
        if not touched_I.any() or touched_I.all():
            return shared
        feature_IF = torch.from_numpy(self.content.features.rows(content, touched_I.numpy(), 1))

        def filled(table_ID: Tensor) -> Tensor:
            assert self.content is not None
            nothing = np.random.default_rng(0)  # a closed form draws nothing
            fitted = self.content.fit({}, table_ID[touched_I], feature_IF[touched_I], 1, nothing)
            made_CD = self.content.generate(fitted, feature_IF[~touched_I], torch.zeros(0))
            return table_ID.index_put((torch.nonzero(~touched_I)[:, 0],), made_CD.to(table_ID))

        if self.width is None:
            return {**shared, WEIGHT: filled(filled(shared[WEIGHT]).T).T.contiguous()}
        return {**shared, LEFT: filled(shared[LEFT]), RIGHT: filled(shared[RIGHT])}

    # All devices at once

    @property
    def runs_ragged(self) -> bool:
        return True

    def update_ragged(
        self, shared: Params, private: Params, batch: RaggedBatch, round_number: int
    ) -> Params:
        if not self.sends(round_number):
            return {}
        history = batch.history.take(np.flatnonzero(batch.reports_P))  # no client keeps anything
        longest = int(history.size_U.max(initial=0))
        pairs = PairWeights.of(self.past, self.horizon, longest)
        if self.width is None:
            kinds = {name: KINDS[name] for name in self._sums}
            return summed_pairs(kinds, history, pairs, len(shared[WEIGHT]), self.scale)
        projection_ID = self._projection(shared, round_number).to(shared[LEFT]).numpy()
        backwards = round_number > 1
        folded = (history, pairs, self.horizon, projection_ID, self.scale, backwards)
        return {ROWS: summed_rows(*folded)}

    def score_ragged(
        self, shared: Params, private: Params, user_B: np.ndarray, history: Lists
    ) -> Tensor:
        decay = float(shared[DECAY])
        if self.width is None:
            return weighed_rows(history, decay, shared[WEIGHT])
        return self._unfolded(shared, weighed_rows(history, decay, shared[LEFT]))

    # What it tells

    @property
    def bound(self) -> Bound | None:
        return Bound(2, 1.0) if self.scale == "norm" else None

    def interpretation(self) -> list[str]:
        bounded = "of Euclidean norm 1" if self.scale == "norm" else "without a bound"
        return [
            "only the sum of the uploads is used: under secure aggregation the server reads how "
            "often items follow each other over all clients, and no client's own order",
            "without secure aggregation it reads a client's history and much of its order",
            f"what one client adds to the sum is {bounded}",
        ]


def _spread(weight_HH: Tensor, data: ClientData, n_items: int) -> Tensor:
    """Rows of the history's items over all items, from weights of pairs of entries."""
    return weight_HH.new_zeros(len(weight_HH), n_items).index_add(1, data.history_H, weight_HH)


def _ridged(gram_II: Tensor, ridge: float) -> Tensor:
    """A Gram matrix with a ridge that is relative to its mean diagonal."""
    mean = gram_II.diagonal().mean().clamp(min=1e-12)
    return gram_II + ridge * mean * torch.eye(len(gram_II)).to(gram_II)


def _power(sum_I: Tensor, power: float) -> Tensor:
    """sum^-power, and 0 for items that have no sum."""
    return torch.where(sum_I > 0, sum_I.clamp(min=1e-300) ** -power, torch.zeros_like(sum_I))


def _unit(table_II: Tensor) -> Tensor:
    return table_II / table_II.norm().clamp(min=1e-300)


@lru_cache(maxsize=4)
def public_projection(n_items: int, width: int, sketch: Sketch) -> Tensor:
    """A random (I, W) matrix that everybody can draw alone: it is never sent.

    >>> public_projection(3, 2, "count").abs().sum(1).tolist()
    [1.0, 1.0, 1.0]
    """
    item_I, stream = np.arange(n_items, dtype=np.uint64), streams.name_of("fednext.sketch")
    if sketch != "count":
        drawn_ID = streams.normals(0, streams.INIT, stream, item_I, width)
        return torch.from_numpy(drawn_ID / np.sqrt(width))
    unit_I2 = streams.uniforms(0, streams.INIT, stream, item_I, 2)
    bucket_I = torch.from_numpy((unit_I2[:, 0] * width).astype(np.int64))
    sign_I = torch.from_numpy(np.where(unit_I2[:, 1] < 0.5, -1.0, 1.0))
    signed_ID = torch.zeros((n_items, width), dtype=torch.float64)
    return signed_ID.index_put((torch.arange(n_items), bucket_I), sign_I)


SOLVED: dict[str, Any] = {"learns": "ridge", "past": 5.6, "horizon": 1, "half_lives": (2.8, 5.6)}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "ridge": SOLVED,
    "mixed": {**SOLVED, "ease": (0.5, 1.0)},
    "narrow": {"width": 256},
    "content": {"content": Ridge()},
}

METHODS["fednext"] = Entry(
    build=FedNext,
    summary="ours: next items from sums over ordered histories",
    rounds=max(FedNext(**preset).max_rounds or 1 for preset in PRESETS.values()),
    presets=PRESETS,
    chosen={"paper": Chosen(("ml-100k", "ml-1m", "amazon-video-10", "amazon-video"))},
)
