"""One block of clients through one round: vmap over the loss, everything else around it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch.func import vmap

from tacit.core.capabilities import is_plain_descent, stacked_slots, steps_entrywise
from tacit.core.compose import Algorithm
from tacit.core.types import PAST, PAST_WEIGHT, Batch, Params
from tacit.data.batches import BlockDraws
from tacit.engines.base import Totals, upload_factor
from tacit.engines.compiled import Block, descent_of
from tacit.engines.kernels.rows import add_rows, scatter_add
from tacit.engines.state import State
from tacit.errors import TacitError

# What is left of a block's round: some stays on the devices, some leaves them.


def keep(run: BlockRun, state: State) -> None:
    """What stays on the devices: private leaves, personal rows, persistent moments."""
    for leaf in run.p:
        if leaf in state.private:
            state.private[leaf][run.user_B] = run.p[leaf].to(state.private[leaf].device)
    for name, value in state.moments.items():
        leaf, slot = name.split("/")
        value[run.user_B] = run.slots[leaf][slot].to(value.device)
    for leaf in run.algorithm.row_leaves:
        if run.in_place or (leaf not in state.private and state.tuned is None):
            continue
        if leaf in state.private:
            own_UID = state.private[leaf]
            row_BRD, item_BR = run.rows[leaf].to(own_UID.device), run.item_BR.to(own_UID.device)
            place_BR = run.user_B.to(own_UID.device)[:, None] * own_UID.shape[1] + item_BR
            real_BR = _real_rows(run).to(own_UID.device)
            own_UID.flatten(0, 1).index_copy_(0, place_BR[real_BR], row_BRD[real_BR])
        elif state.tuned is not None:
            row_BRD = run.rows[leaf].cpu()
            for b, user in enumerate(run.user_B.tolist()):
                count = int(run.draws.rows_B[b])
                state.tuned.write(user, run.draws.item_BR[b, :count], row_BRD[b, :count])


def _real_rows(run: BlockRun) -> torch.Tensor:
    """Which rows are touched by their client, and not only there to fill the block."""
    width = run.item_BR.shape[1]
    return torch.arange(width) < torch.from_numpy(run.draws.rows_B)[:, None]


def send(run: BlockRun, totals: Totals, weight_B: np.ndarray) -> None:
    """What leaves them: changes of shared leaves, through the channel, summed in float64."""
    change: Params = {}
    for leaf, value in run.pooled.items():
        totals.change[leaf] += value.double().cpu().numpy()
    for leaf in run.algorithm.uploads:
        if leaf in run.still:
            continue
        if leaf in run.summed:
            change[leaf] = run.summed[leaf]
            continue
        if leaf not in run.rows:
            change[leaf] = run.p[leaf] - run.shared[leaf]
            continue
        start = run.shared[leaf].index_select(0, run.item_BR.view(-1))
        moved_BRD = run.rows[leaf] - start.view_as(run.rows[leaf])
        change[leaf] = moved_BRD * _real_rows(run)[..., None].to(run.device)
    factor_B = upload_factor(run.algorithm, change, batch_dims=1)
    weight = torch.from_numpy(weight_B).to(run.device)
    for leaf, value in change.items():
        scaled = value.double()
        spread = [1] * (value.dim() - 1)
        if factor_B is not None:
            scaled = (scaled * factor_B.view(-1, *spread)).to(value).double()
        sent = scaled * weight.view(-1, *spread)
        if sent.is_cuda:  # added up there: the sum is small, what all clients send is not
            totals.change[leaf] += _sum_on_device(run, leaf, sent).cpu().numpy()
        elif leaf in run.rows:
            add_rows(totals.change[leaf], run.draws.item_BR, run.draws.rows_B, sent.numpy())
        else:
            totals.change[leaf] += sent.numpy().sum(0)


def _sum_on_device(run: BlockRun, leaf: str, sent: torch.Tensor) -> torch.Tensor:
    if leaf not in run.rows:
        return sent.sum(0)
    total_ID = sent.new_zeros(run.shared[leaf].shape)
    return total_ID.index_add_(0, run.item_BR.view(-1), sent.flatten(0, 1))


# One block of clients through one round: vmap over the loss, everything else around it.
#
# Clients are independent within a round, so the gradient of the sum of their losses is each
# client's own gradient. Gathering rows, stepping and scattering stay outside of the map, in place.


@contextmanager
def said_if_unmapped() -> Iterator[None]:
    """A part that cannot be mapped over clients is refused in a sentence.

    >>> with said_if_unmapped():
    ...     vmap(lambda x: x * x.item())(torch.ones(2))
    Traceback (most recent call last):
    tacit.errors.TacitError: A part of this method cannot be mapped over clients (vmap: It looks \
like you're calling .item() on a Tensor); write it for tensors of any client, without .item() and \
without branches that depend on data.
    """
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("vmap"):
            raise
        what = str(error).split(". ")[0]
        raise TacitError(
            f"A part of this method cannot be mapped over clients ({what}); write it for tensors "
            "of any client, without .item() and without branches that depend on data."
        ) from error


class BlockRun:
    """One block of clients through one round; leaves carry a leading client axis."""

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        shared: Params,
        user_B: np.ndarray,
        draws: BlockDraws,
        device: str,
        past: tuple[np.ndarray, np.ndarray] | None = None,
        weight_B: np.ndarray | None = None,
    ) -> None:
        self.algorithm, self.draws, self.device = algorithm, draws, device
        self.descent, self.private = descent_of(algorithm, device), state.private
        # a compiled descent over whole tables reads and writes them where they lie
        self.in_place = self.descent is not None and algorithm.method.sync.rows == "all"
        self.shared, self.user_B = shared, torch.from_numpy(user_B)
        self.round_number = state.round_number + 1
        self.item_BR = torch.from_numpy(draws.item_BR).to(device)
        size, rows = self.item_BR.shape
        # Leaves of the encoder that stand still for everybody: unless single uploads are looked
        # at, the weighted sum of their gradients is all that is ever needed.
        self.still: Params = {}
        self.weight_B = None if weight_B is None else torch.from_numpy(weight_B).to(device)
        if self.weight_B is not None and _pools(algorithm):
            encoder = algorithm.held - {*algorithm.row_leaves}
            self.still = {leaf: shared[leaf] for leaf in sorted(encoder)}
        self.pooled = {leaf: torch.zeros_like(value) for leaf, value in self.still.items()}
        self.p: Params = {}
        for leaf in algorithm.model_leaves:
            if leaf in self.still:
                continue
            if leaf in algorithm.held:  # it stands still, so a view of the one copy is enough
                self.p[leaf] = shared[leaf].expand(size, *shared[leaf].shape)
            elif leaf in shared:
                self.p[leaf] = shared[leaf].expand(size, *shared[leaf].shape).clone()
            else:
                self.p[leaf] = state.private[leaf][self.user_B].to(device)
        self.rows: Params = {}
        for leaf in () if self.in_place else (*algorithm.row_leaves, *algorithm.held_rows):
            if leaf in shared:
                row_BRD = shared[leaf].index_select(0, self.item_BR.view(-1))
            else:
                own_UID = state.private[leaf]
                row_BRD = own_UID[self.user_B[:, None], self.item_BR.to(own_UID.device)].to(device)
            self.rows[leaf] = row_BRD.view(size, rows, -1)
        self.offset_B1 = torch.arange(size, device=device)[:, None] * rows
        self.content = {leaf: value.to(device) for leaf, value in algorithm.content.items()}
        self.constant: Params = {  # of the rule's own: read by every client, moved by none
            leaf: shared[leaf].expand(size, *shared[leaf].shape)
            if leaf in shared
            else state.private[leaf][self.user_B].to(device)
            for leaf in algorithm.constant_leaves
        }
        self.past_BH, self.weight_BH = self._past(past)
        self.summed: Params = {}  # gradients of held leaves, by client
        for leaf in algorithm.held - {*self.still}:
            like = self.rows[leaf] if leaf in self.rows else self.p[leaf]
            self.summed[leaf] = torch.zeros(like.shape, dtype=like.dtype, device=device)
        self.slots = self._first_slots(state)

    def _past(
        self, past: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Where each client's own history lies in the flat rows of the block."""
        if past is None:
            return None, None
        row_BH, weight_BH = (torch.from_numpy(part).to(self.device) for part in past)
        return row_BH + self.offset_B1, weight_BH

    def _first_slots(self, state: State) -> dict[str, Params]:
        moved = () if self.in_place else self.algorithm.row_leaves
        values = {**self.p, **{leaf: self.rows[leaf] for leaf in moved}}
        slots = {
            leaf: stacked_slots(self.algorithm.optimiser(leaf), value)
            for leaf, value in values.items()
            if leaf not in self.algorithm.held
        }
        for name, value in state.moments.items():
            leaf, slot = name.split("/")
            slots[leaf][slot] = value[self.user_B].to(self.device)
        return slots

    def _loss(
        self,
        p: Params,
        rows: Params,
        label_N: torch.Tensor,
        weight_N: torch.Tensor,
        still: Params,
    ) -> torch.Tensor:
        batch = Batch(label_N, label_N, weight_N)
        return self.algorithm.loss({**still, **p, **rows}, batch, self.round_number)

    def _table_penalty(self, rows: Params) -> torch.Tensor:
        assert self.algorithm.table_penalty is not None
        return self.algorithm.table_penalty({**self.shared, **rows})

    def train(self) -> float:
        if self.descent is not None:
            tables = self.private if self.in_place else self.rows
            known = (self.algorithm, self.p, tables, self.shared, self.user_B.numpy())
            return self.descent(Block(*known, self.draws, self.round_number))
        draws, local = self.draws, self.algorithm.method.local
        row_TSBW = torch.from_numpy(draws.row_TSBW).to(self.device)
        label_TSBW = torch.from_numpy(draws.label_TSBW).to(self.device)
        weight_SBW = torch.from_numpy(draws.weight_SBW).to(self.device)
        # summed where it is: asking for a number in every step would make a GPU wait for the host
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        for epoch in range(row_TSBW.shape[0]):
            phases = local.phases(epoch)
            for step in range(row_TSBW.shape[1]):
                active = int((draws.steps_B > step).sum())
                index = (row_TSBW[epoch, step, :active] + self.offset_B1[:active]).reshape(-1)
                label_BN = label_TSBW[epoch, step, :active]
                weight_BN = weight_SBW[step, :active]
                for number, phase in enumerate(phases):
                    leaves = [leaf for g in phase.groups for leaf in self.algorithm.leaves(g)]
                    if not leaves:
                        continue
                    loss_B = self._step(leaves, active, index, label_BN, weight_BN)
                    if number == 0:
                        samples_B = (weight_BN > 0).sum(1)
                        loss_sum += (loss_B.double() * samples_B).sum()
        return float(loss_sum)

    def _step(
        self,
        leaves: list[str],
        active: int,
        index: torch.Tensor,
        label_BN: torch.Tensor,
        weight_BN: torch.Tensor,
    ) -> torch.Tensor:
        row_leaves, local = self.algorithm.row_leaves, self.algorithm.method.local
        flats = {leaf: self.rows[leaf].view(-1, self.rows[leaf].shape[-1]) for leaf in row_leaves}
        read = {
            leaf: flat.index_select(0, index).view(active, -1, flat.shape[-1])
            for leaf, flat in flats.items()
        }
        constant = self._constants(active, index)
        if self.past_BH is not None:
            # a row that is sampled and lies in the history collects gradients of both readings
            read |= {
                f"{leaf}{PAST}": flat.index_select(0, self.past_BH[:active].reshape(-1)).view(
                    active, -1, flat.shape[-1]
                )
                for leaf, flat in flats.items()
            }
        q = {leaf: value[:active].detach() for leaf, value in self.p.items()}
        named = [name for leaf in leaves for name in (leaf, leaf + PAST) if name in {**read, **q}]
        free = [read[name] if name in read else q[name] for name in named]
        for tensor in free:
            tensor.requires_grad_()
        felt = {
            leaf: self.still[leaf].detach().requires_grad_()
            for leaf in leaves
            if leaf in self.still
        }
        # mapped here and not kept: a method of its own in a field would make the block a cycle, and
        # tables of gigabytes would wait for the collector
        map_loss = vmap(self._loss, in_dims=(0, 0, 0, 0, None))
        with said_if_unmapped():
            loss_B = map_loss(q, {**read, **constant}, label_BN, weight_BN, {**self.still, **felt})
        self._pool(felt, loss_B)
        gradients = dict(
            zip(named, torch.autograd.grad(loss_B.sum(), free, materialize_grads=True), strict=True)
        )
        moved = [leaf for leaf in leaves if leaf in row_leaves]
        penalties = self._penalty_gradients(moved, active) if moved else {}
        items, summed_rows = local.items, self.algorithm.method.sync.rows == "all"
        plain = is_plain_descent(items) and local.gradient_clip is None and not summed_rows
        plain = plain and self.past_BH is None
        with torch.no_grad():
            for leaf in moved:
                flat, gradient = flats[leaf], gradients[leaf].reshape(-1, flats[leaf].shape[-1])
                if plain and leaf not in self.algorithm.held:
                    # duplicates may be added one after another, straight into the rows
                    del gradients[leaf]
                    rate = items.rate_at(self.round_number, self.algorithm.task.n_items)
                    scatter_add(flat, index, gradient, -rate)
                    continue
                summed = torch.zeros_like(flat[: active * self.rows[leaf].shape[1]])
                scatter_add(summed, index, gradient, 1.0)
                if self.past_BH is not None:
                    again = gradients.pop(leaf + PAST).reshape(-1, flat.shape[-1])
                    scatter_add(summed, self.past_BH[:active].reshape(-1), again, 1.0)
                gradients[leaf] = summed.view(active, *self.rows[leaf].shape[1:])
                if leaf in penalties:
                    gradients[leaf] += penalties[leaf]
            self._clip(gradients, active)
            for leaf, gradient in gradients.items():
                self._update(leaf, gradient, active)
        return loss_B.detach()

    def _pool(self, felt: Params, loss_B: torch.Tensor) -> None:
        """Add the weighted sum of the clients' gradients of leaves that stand still for all."""
        if not felt:
            return
        assert self.weight_B is not None
        total = (loss_B * self.weight_B[: len(loss_B)].to(loss_B)).sum()
        gradients = torch.autograd.grad(total, list(felt.values()), retain_graph=True)
        for leaf, gradient in zip(felt, gradients, strict=True):
            self.pooled[leaf] += gradient

    def _penalty_gradients(self, moved: list[str], active: int) -> Params:
        """Gradients of the rule's term over whole tables; it has rows for all items."""
        if self.algorithm.table_penalty is None:
            return {}
        rows = {leaf: value[:active].detach() for leaf, value in self.rows.items()}
        free = [rows[leaf].requires_grad_() for leaf in moved]
        total = vmap(self._table_penalty)(rows).sum()
        return dict(zip(moved, torch.autograd.grad(total, free), strict=True))

    def _clip(self, gradients: Params, active: int) -> None:
        bound = self.algorithm.method.local.gradient_clip
        if bound is None:
            return
        squares = [(g * g).reshape(active, -1).sum(1) for g in gradients.values()]
        norm_B = torch.stack(squares).sum(0).sqrt()
        scale_B = (bound / norm_B.clamp(min=1e-30)).clamp(max=1.0)
        for leaf, gradient in gradients.items():
            gradients[leaf] = gradient * scale_B.view(active, *[1] * (gradient.dim() - 1))

    def _constants(self, active: int, index: torch.Tensor) -> Params:
        """Leaves of the rule alone, content of the samples and of histories, and their weights."""
        constant = {leaf: value[:active] for leaf, value in self.constant.items()}
        if self.content:
            item = self.item_BR.view(-1)
            dtype = next(iter(self.rows.values())).dtype
            for leaf, table in self.content.items():
                constant[leaf] = table[item[index]].to(dtype).view(active, -1, table.shape[-1])
                if self.past_BH is not None:
                    past = table[item[self.past_BH[:active]]].to(dtype)
                    constant[leaf + PAST] = past
        if self.weight_BH is not None:
            constant[PAST_WEIGHT] = self.weight_BH[:active]
        return constant

    def _update(self, leaf: str, gradient: torch.Tensor, active: int) -> None:
        if leaf in self.summed:
            if self.algorithm.method.local.sends == "last_gradient":
                self.summed[leaf][:active] = gradient
            else:
                self.summed[leaf][:active] += gradient
            return
        optimiser = self.algorithm.optimiser(leaf)
        rate = optimiser.rate_at(self.round_number, self.algorithm.task.n_items)
        whole = self.rows[leaf] if leaf in self.rows else self.p[leaf]
        slots = {slot: value[:active] for slot, value in self.slots[leaf].items()}
        if steps_entrywise(optimiser):
            value, slots = optimiser.update(whole[:active], gradient, slots, rate)
        else:  # the block is one client, who steps as it would alone
            own = {slot: value[0] for slot, value in slots.items()}
            value, slots = optimiser.update(whole[0], gradient[0], own, rate)
        whole[:active] = value
        for slot, new in slots.items():
            self.slots[leaf][slot][:active] = new


def _pools(algorithm: Algorithm) -> bool:
    """Whether nothing asks for the single gradients of held leaves."""
    method = algorithm.method
    clips = method.local.gradient_clip is not None or any(
        link.order is not None for link in method.channel
    )
    return method.local.sends == "gradients" and not clips


# Blocks of clients with their draws; while one block trains on a GPU, the host draws the next.


def blocks_ahead(
    order_P: np.ndarray, size: int, draw: Callable[[np.ndarray], BlockDraws], threads: int
) -> Iterator[tuple[np.ndarray, BlockDraws]]:
    """(places, draws) of each block of `size` places, in order; `threads` blocks are drawn ahead,
    none with 0.

    >>> [place_B.tolist() for place_B, _ in blocks_ahead(np.arange(5), 2, lambda place_B: None, 2)]
    [[0, 1], [2, 3], [4]]
    """
    blocks = [order_P[begin : begin + size] for begin in range(0, len(order_P), size)]
    if not threads:
        yield from ((place_B, draw(place_B)) for place_B in blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[BlockDraws]] = deque()
        for number, place_B in enumerate(blocks):
            while len(waiting) <= threads and number + len(waiting) < len(blocks):
                waiting.append(pool.submit(draw, blocks[number + len(waiting)]))
            yield place_B, waiting.popleft().result()
