"""One block of clients through one round: vmap over the loss, everything else around it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from torch.func import vmap

from tacit.core.algorithm import Total
from tacit.core.capabilities import (
    encodes,
    is_plain_descent,
    stacked_optimizer_state,
    steps_entrywise,
)
from tacit.core.client import scaled, through_channel, upload_factor
from tacit.core.compose import ComposedAlgorithm
from tacit.core.types import (
    BOUND,
    HISTORY_WEIGHT,
    OF_HISTORY,
    Batch,
    Params,
    Upload,
    UploadDraws,
)
from tacit.data.batches import BlockDraws
from tacit.engines.accelerators import block_claim
from tacit.engines.accelerators.blocks import Block
from tacit.engines.accelerators.sums import add_rows, scatter_add
from tacit.engines.state import State
from tacit.errors import TacitError

# Write back private parameters and collect uploads.


def keep(run: BlockRun, state: State) -> None:
    """What stays on the devices: private parameters, personal rows, persistent optimizer state."""
    for parameter in run.p:
        if parameter in state.private:
            state.private[parameter][run.user_B] = run.p[parameter].to(
                state.private[parameter].device
            )
    for name, value in state.optimizer.items():
        parameter, key = name.split("/")
        value[run.user_B] = run.states[parameter][key].to(value.device)
    for parameter in run.algorithm.row_parameters:
        if run.in_place or (parameter not in state.private and state.tuned is None):
            continue
        if parameter in state.private:
            own_UID = state.private[parameter]
            row_BRD, item_BR = (
                run.rows[parameter].to(own_UID.device),
                run.item_BR.to(own_UID.device),
            )
            place_BR = run.user_B.to(own_UID.device)[:, None] * own_UID.shape[1] + item_BR
            real_BR = _real_rows(run).to(own_UID.device)
            own_UID.flatten(0, 1).index_copy_(0, place_BR[real_BR], row_BRD[real_BR])
        elif state.tuned is not None:
            row_BRD = run.rows[parameter].cpu()
            for b, user in enumerate(run.user_B.tolist()):
                count = int(run.draws.rows_B[b])
                state.tuned.write(user, run.draws.item_BR[b, :count], row_BRD[b, :count])


def _real_rows(run: BlockRun) -> torch.Tensor:
    """Which rows are touched by their client, and not only there to fill the block."""
    width = run.item_BR.shape[1]
    return torch.arange(width) < torch.from_numpy(run.draws.rows_B)[:, None]


def send(
    run: BlockRun,
    totals: Total,
    weight_B: np.ndarray,
    draws_B: Sequence[UploadDraws] = (),
) -> None:
    """What leaves them: changes of shared parameters, through the channel, summed in float64.
    Channels that encode draw from `draws_B`."""
    change: Params = {}
    for name, value in run.pooled.items():
        totals.sums[name] += value.double().cpu().numpy()
    for name in run.algorithm.uploads:
        if name in run.still:
            continue
        if name in run.summed:
            change[name] = run.summed[name]
            continue
        if name not in run.rows:
            change[name] = run.p[name] - run.shared[name]
            continue
        start = run.shared[name].index_select(0, run.item_BR.view(-1))
        moved_BRD = run.rows[name] - start.view_as(run.rows[name])
        change[name] = moved_BRD * _real_rows(run)[..., None].to(run.device)
    if run.algorithm.links.coding:
        _send_encoded(run, change, totals, weight_B, draws_B)
        return
    protection = run.algorithm.protection
    unit = 1.0 if protection is None else protection.unit(run.shared)
    factor_B = upload_factor(run.algorithm.channel, change, batch_dims=1, unit=unit)
    weight = torch.from_numpy(weight_B).to(run.device)
    if protection is not None and protection.estimates and factor_B is not None:
        totals.add(BOUND, (weight * protection.bit(factor_B)).sum().cpu().numpy())
    for name, value in change.items():
        passed = value.double()
        spread = [1] * (value.dim() - 1)
        if factor_B is not None:
            passed = scaled(value, factor_B.view(-1, *spread)).to(value).double()
        sent = passed * weight.view(-1, *spread)
        if sent.is_cuda:  # added up there: the sum is small, what all clients send is not
            totals.sums[name] += _sum_on_device(run, name, sent).cpu().numpy()
        elif name in run.rows:
            add_rows(totals.sums[name], run.draws.item_BR, run.draws.rows_B, sent.numpy())
        else:
            totals.sums[name] += sent.numpy().sum(0)


def _send_encoded(
    run: BlockRun,
    change: Params,
    totals: Total,
    weight_B: np.ndarray,
    draws_B: Sequence[UploadDraws],
) -> None:
    """Uploads that a channel encodes, client by client: a link sees one of them, whole."""
    algorithm, private = run.algorithm, run.private
    for b, (user, weight, draws) in enumerate(zip(run.user_B, weight_B, draws_B, strict=True)):
        count = int(run.draws.rows_B[b])
        rows = {name: v[b, :count] if name in run.rows else v[b] for name, v in change.items()}
        upload = Upload(
            torch.from_numpy(run.draws.item_BR[b, :count]),
            {name: value.cpu() for name, value in rows.items()},
        )
        own = {name: private[name][user].cpu() for name in algorithm.waiting}
        sent, kept = through_channel(algorithm, run.shared, upload, own, draws)
        for name, value in kept.items():
            private[name][user] = value.to(private[name].device)
        for name, value in sent.change.items():
            totals.sums[name] += float(weight) * value.double().numpy()


def _sum_on_device(run: BlockRun, name: str, sent: torch.Tensor) -> torch.Tensor:
    if name not in run.rows:
        return sent.sum(0)
    total_ID = sent.new_zeros(run.shared[name].shape)
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


def one_at_a_time(algorithm: ComposedAlgorithm) -> str | None:
    """Why clients cannot be stacked into blocks; None where they can.

    >>> from tacit.core.compose import compose
    >>> from tacit.core.types import Task
    >>> from tacit.methods import fedmf
    >>> one_at_a_time(compose(fedmf(dim=4), Task(2, 3))) is None
    True
    """
    local, guided = algorithm.method.local, algorithm.method.sync.guidance
    optimisers = {"local.model": local.model, "local.items": local.items}
    if guided is not None:
        optimisers["sync.gate_optimiser"] = guided.gate_optimiser
    for name, optimiser in optimisers.items():
        if not steps_entrywise(optimiser):
            return f"{name} is {type(optimiser).__name__}, which does not say that it is entrywise"
    return None


class BlockRun:
    """One block of clients through one round; parameters carry a leading client axis."""

    def __init__(
        self,
        algorithm: ComposedAlgorithm,
        state: State,
        shared: Params,
        user_B: np.ndarray,
        draws: BlockDraws,
        device: str,
        history: tuple[np.ndarray, np.ndarray] | None = None,
        weight_B: np.ndarray | None = None,
    ) -> None:
        self.algorithm, self.draws, self.device = algorithm, draws, device
        self.kernel, self.private = block_claim(algorithm, device).kernel, state.private
        # a compiled descent over whole tables reads and writes them where they lie
        self.in_place = self.kernel is not None and algorithm.method.sync.rows == "all"
        self.shared, self.user_B = shared, torch.from_numpy(user_B)
        self.round_number = state.round_number + 1
        self.item_BR = torch.from_numpy(draws.item_BR).to(device)
        size, rows = self.item_BR.shape
        # Parameters of the encoder that stand still for everybody: unless single uploads are looked
        # at, the weighted sum of their gradients is all that is ever needed.
        self.still: Params = {}
        self.weight_B = None if weight_B is None else torch.from_numpy(weight_B).to(device)
        if self.weight_B is not None and _pools(algorithm):
            encoder = algorithm.gradients_only - {*algorithm.row_parameters}
            self.still = {name: shared[name] for name in sorted(encoder)}
        self.pooled = {name: torch.zeros_like(value) for name, value in self.still.items()}
        self.p: Params = {}
        for name in algorithm.model_parameters:
            if name in self.still:
                continue
            if (
                name in algorithm.gradients_only
            ):  # it stands still, so a view of the one copy is enough
                self.p[name] = shared[name].expand(size, *shared[name].shape)
            elif name in shared:
                self.p[name] = shared[name].expand(size, *shared[name].shape).clone()
            else:
                self.p[name] = state.private[name][self.user_B].to(device)
        self.rows: Params = {}
        for name in () if self.in_place else (*algorithm.row_parameters, *algorithm.frozen_tables):
            if name in shared:
                row_BRD = shared[name].index_select(0, self.item_BR.view(-1))
            else:
                own_UID = state.private[name]
                row_BRD = own_UID[self.user_B[:, None], self.item_BR.to(own_UID.device)].to(device)
            self.rows[name] = row_BRD.view(size, rows, -1)
        self.offset_B1 = torch.arange(size, device=device)[:, None] * rows
        self.content = {name: value.to(device) for name, value in algorithm.content.items()}
        self.constant: Params = {  # of the rule's own: read by every client, moved by none
            name: shared[name].expand(size, *shared[name].shape)
            if name in shared
            else state.private[name][self.user_B].to(device)
            for name in algorithm.constant_parameters
        }
        self.history_BH, self.weight_BH = self._history(history)
        # gradients of parameters that stand still on the device, by client
        self.summed: Params = {}
        for name in algorithm.gradients_only - {*self.still}:
            like = self.rows[name] if name in self.rows else self.p[name]
            self.summed[name] = torch.zeros(like.shape, dtype=like.dtype, device=device)
        self.states = self._first_states(state)

    def _history(
        self, history: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Where each client's own history lies in the flat rows of the block."""
        if history is None:
            return None, None
        row_BH, weight_BH = (torch.from_numpy(part).to(self.device) for part in history)
        return row_BH + self.offset_B1, weight_BH

    def _first_states(self, state: State) -> dict[str, Params]:
        moved = () if self.in_place else self.algorithm.row_parameters
        values = {**self.p, **{parameter: self.rows[parameter] for parameter in moved}}
        states = {
            parameter: stacked_optimizer_state(self.algorithm.optimiser(parameter), value)
            for parameter, value in values.items()
            if parameter not in self.algorithm.gradients_only
        }
        for name, value in state.optimizer.items():
            parameter, key = name.split("/")
            states[parameter][key] = value[self.user_B].to(self.device)
        return states

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
        if self.kernel is not None:
            tables = self.private if self.in_place else self.rows
            known = (self.algorithm, self.p, tables, self.shared, self.user_B.numpy())
            return self.kernel.descend(Block(*known, self.draws, self.round_number))
        draws, local = self.draws, self.algorithm.method.local
        row_TSBW = torch.from_numpy(draws.row_TSBW).to(self.device)
        label_TSBW = torch.from_numpy(draws.label_TSBW).to(self.device)
        weight_SBW = torch.from_numpy(draws.weight_SBW).to(self.device)
        counts_TSBW = None
        if draws.counts_TSBW is not None:
            counts_TSBW = torch.from_numpy(draws.counts_TSBW).to(self.device)
        # summed where it is: asking for a number in every step would make a GPU wait for the host
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        for epoch in range(row_TSBW.shape[0]):
            phases = local.phases(epoch)
            for step in range(row_TSBW.shape[1]):
                active = int((draws.steps_B > step).sum())
                index = (row_TSBW[epoch, step, :active] + self.offset_B1[:active]).reshape(-1)
                label_BN = label_TSBW[epoch, step, :active]
                weight_BN = weight_SBW[step, :active]
                samples_B = (weight_BN > 0).sum(1)
                if counts_TSBW is not None:
                    weight_BN = weight_BN * counts_TSBW[epoch, step, :active]
                for number, phase in enumerate(phases):
                    parameters = [
                        name for g in phase.groups for name in self.algorithm.parameters(g)
                    ]
                    if not parameters:
                        continue
                    loss_B = self._step(parameters, active, index, label_BN, weight_BN)
                    if number == 0:
                        loss_sum += (loss_B.double() * samples_B).sum()
        return float(loss_sum)

    def _step(
        self,
        parameters: list[str],
        active: int,
        index: torch.Tensor,
        label_BN: torch.Tensor,
        weight_BN: torch.Tensor,
    ) -> torch.Tensor:
        row_parameters, local = self.algorithm.row_parameters, self.algorithm.method.local
        flats = {
            parameter: self.rows[parameter].view(-1, self.rows[parameter].shape[-1])
            for parameter in row_parameters
        }
        read = {
            parameter: flat.index_select(0, index).view(active, -1, flat.shape[-1])
            for parameter, flat in flats.items()
        }
        constant = self._constants(active, index)
        if self.history_BH is not None:
            # a row that is sampled and lies in the history collects gradients of both readings
            read |= {
                f"{parameter}{OF_HISTORY}": flat.index_select(
                    0, self.history_BH[:active].reshape(-1)
                ).view(active, -1, flat.shape[-1])
                for parameter, flat in flats.items()
            }
        q = {parameter: value[:active].detach() for parameter, value in self.p.items()}
        named = [
            name
            for parameter in parameters
            for name in (parameter, parameter + OF_HISTORY)
            if name in {**read, **q}
        ]
        free = [read[name] if name in read else q[name] for name in named]
        for tensor in free:
            tensor.requires_grad_()
        tracked = {
            parameter: self.still[parameter].detach().requires_grad_()
            for parameter in parameters
            if parameter in self.still
        }
        # mapped here and not kept: a method of its own in a field would make the block a cycle, and
        # tables of gigabytes would wait for the collector
        map_loss = vmap(self._loss, in_dims=(0, 0, 0, 0, None))
        with said_if_unmapped():
            loss_B = map_loss(
                q, {**read, **constant}, label_BN, weight_BN, {**self.still, **tracked}
            )
        self._pool(tracked, loss_B)
        gradients = dict(
            zip(named, torch.autograd.grad(loss_B.sum(), free, materialize_grads=True), strict=True)
        )
        moved = [parameter for parameter in parameters if parameter in row_parameters]
        penalties = self._penalty_gradients(moved, active) if moved else {}
        items, summed_rows = local.items, self.algorithm.method.sync.rows == "all"
        plain = is_plain_descent(items) and local.gradient_clip is None and not summed_rows
        plain = plain and self.history_BH is None
        with torch.no_grad():
            for parameter in moved:
                flat, gradient = (
                    flats[parameter],
                    gradients[parameter].reshape(-1, flats[parameter].shape[-1]),
                )
                if plain and parameter not in self.algorithm.gradients_only:
                    # duplicates may be added one after another, straight into the rows
                    del gradients[parameter]
                    rate = items.rate_at(self.round_number, self.algorithm.task.n_items)
                    scatter_add(flat, index, gradient, -rate)
                    continue
                summed = torch.zeros_like(flat[: active * self.rows[parameter].shape[1]])
                scatter_add(summed, index, gradient, 1.0)
                if self.history_BH is not None:
                    again = gradients.pop(parameter + OF_HISTORY).reshape(-1, flat.shape[-1])
                    scatter_add(summed, self.history_BH[:active].reshape(-1), again, 1.0)
                gradients[parameter] = summed.view(active, *self.rows[parameter].shape[1:])
                if parameter in penalties:
                    gradients[parameter] += penalties[parameter]
            self._clip(gradients, active)
            for parameter, gradient in gradients.items():
                self._update(parameter, gradient, active)
        return loss_B.detach()

    def _pool(self, tracked: Params, loss_B: torch.Tensor) -> None:
        """Add the weighted sum of the clients' gradients of parameters that stand still for all."""
        if not tracked:
            return
        assert self.weight_B is not None
        total = (loss_B * self.weight_B[: len(loss_B)].to(loss_B)).sum()
        gradients = torch.autograd.grad(total, list(tracked.values()), retain_graph=True)
        for name, gradient in zip(tracked, gradients, strict=True):
            self.pooled[name] += gradient

    def _penalty_gradients(self, moved: list[str], active: int) -> Params:
        """Gradients of the rule's term over whole tables; it has rows for all items."""
        if self.algorithm.table_penalty is None:
            return {}
        rows = {name: value[:active].detach() for name, value in self.rows.items()}
        free = [rows[name].requires_grad_() for name in moved]
        total = vmap(self._table_penalty)(rows).sum()
        return dict(zip(moved, torch.autograd.grad(total, free), strict=True))

    def _clip(self, gradients: Params, active: int) -> None:
        bound = self.algorithm.method.local.gradient_clip
        if bound is None:
            return
        squares = [(g * g).reshape(active, -1).sum(1) for g in gradients.values()]
        norm_B = torch.stack(squares).sum(0).sqrt()
        scale_B = (bound / norm_B.clamp(min=1e-30)).clamp(max=1.0)
        for name, gradient in gradients.items():
            gradients[name] = gradient * scale_B.view(active, *[1] * (gradient.dim() - 1))

    def _constants(self, active: int, index: torch.Tensor) -> Params:
        """Parameters of the rule alone, content of the samples and of histories, and their
        weights."""
        constant = {name: value[:active] for name, value in self.constant.items()}
        if self.content:
            item = self.item_BR.view(-1)
            dtype = next(iter(self.rows.values())).dtype
            for name, table in self.content.items():
                constant[name] = table[item[index]].to(dtype).view(active, -1, table.shape[-1])
                if self.history_BH is not None:
                    history = table[item[self.history_BH[:active]]].to(dtype)
                    constant[name + OF_HISTORY] = history
        if self.weight_BH is not None:
            constant[HISTORY_WEIGHT] = self.weight_BH[:active]
        return constant

    def _update(self, name: str, gradient: torch.Tensor, active: int) -> None:
        if name in self.summed:
            if self.algorithm.method.local.sends == "last_gradient":
                self.summed[name][:active] = gradient
            else:
                self.summed[name][:active] += gradient
            return
        optimiser = self.algorithm.optimiser(name)
        rate = optimiser.rate_at(self.round_number, self.algorithm.task.n_items)
        whole = self.rows[name] if name in self.rows else self.p[name]
        states = {key: value[:active] for key, value in self.states[name].items()}
        if steps_entrywise(optimiser):
            value, states = optimiser.update(whole[:active], gradient, states, rate)
        else:  # the block is one client, who steps as it would alone
            own = {key: value[0] for key, value in states.items()}
            value, states = optimiser.update(whole[0], gradient[0], own, rate)
        whole[:active] = value
        for key, new in states.items():
            self.states[name][key][:active] = new


def _pools(algorithm: ComposedAlgorithm) -> bool:
    """Whether nothing asks for the single gradients of parameters that stand still on the
    device."""
    method = algorithm.method
    single = method.local.gradient_clip is not None or any(
        link.order is not None or encodes(link) for link in algorithm.channel
    )
    return method.local.sends == "gradients" and not single


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
