"""What one client of a composed method does in an exchange: train, or mix the global table in.

These functions are the definition of right. The reference engine calls them client by client, other
engines are held equal to them, and a deployed client calls them on the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from tacit.core.algorithm import ClientData, ClientState, Update
from tacit.core.capabilities import (
    encodes,
    factors_at_once,
    stacked_optimizer_state,
    steps_entrywise,
)
from tacit.core.parts import Guided, Transform
from tacit.core.protection import finite_factor
from tacit.core.types import (
    BOUND,
    HISTORY_WEIGHT,
    ITEMS,
    OF_HISTORY,
    OWN_ITEMS,
    Batch,
    Params,
    Upload,
    UploadDraws,
)
from tacit.data.batches import BlockDraws

if TYPE_CHECKING:
    from tacit.core.compose import ComposedAlgorithm


def local_update(
    algorithm: ComposedAlgorithm,
    shared: Params,
    client: ClientState,
    data: ClientData,
    round_number: int,
    frozen: frozenset[str] = frozenset(),
    sends: bool = True,
) -> Update:
    """One client's training: take the rows it touches, train them, return the differences.

    `frozen` parameters stand still: a person who joins after training fits only what is private.
    Those of which only gradients are sent stand still too, and their gradients are returned.
    """
    assert data.draws is not None
    draws, row_parameters, private = data.draws, algorithm.row_parameters, client.parameters
    item_R = torch.from_numpy(draws.item_BR[0])
    start: Params = {**shared, **private}
    dtype = next(iter(start.values())).dtype
    start |= {name: table[item_R].to(dtype) for name, table in algorithm.content.items()}
    for name in (*row_parameters, *algorithm.frozen_tables):
        start[name] = start[name][item_R]
    p = dict(start)
    states = _first_states(algorithm, p, client.optimizer)
    summed = {name: torch.zeros_like(p[name]) for name in algorithm.gradients_only}
    loss_sum = 0.0
    for epoch, batch in _batches(draws):
        for number, phase in enumerate(algorithm.method.local.phases(epoch)):
            named = [name for group in phase.groups for name in algorithm.parameters(group)]
            parameters = [name for name in named if name not in frozen]
            if not parameters:
                continue
            loss, gradients = _gradients(algorithm, p, parameters, batch, round_number, data)
            if number == 0:
                loss_sum += loss * len(batch.label_N)
            for name, gradient in zip(parameters, gradients, strict=True):
                if name in algorithm.gradients_only:
                    last = algorithm.method.local.sends == "last_gradient"
                    summed[name] = gradient if last else summed[name] + gradient
                    continue
                optimiser = algorithm.optimiser(name)
                rate = optimiser.rate_at(round_number, algorithm.task.n_items)
                p[name], states[name] = optimiser.update(p[name], gradient, states[name], rate)
    change = {
        name: summed[name] if name in summed else p[name] - start[name]
        for name in algorithm.uploads
    }
    upload, waiting = Upload(item_R, change), dict[str, Tensor]()
    if sends:
        upload, waiting = through_channel(algorithm, shared, upload, private, data.upload_draws)
    return Update(
        private={name: p[name] for name in algorithm.model_parameters if name in private} | waiting,
        upload=upload,
        rows={name: p[name] for name in row_parameters},
        optimizer={f"{name}/{key}": v for name in states for key, v in states[name].items()},
        loss_sum=loss_sum,
        samples=int(draws.samples_B[0]) * algorithm.method.local.epochs,
        item_R=item_R,
    )


def _batches(draws: BlockDraws) -> list[tuple[int, Batch]]:
    """The one client's batches over all epochs, each with its epoch, without padding."""
    batches = []
    for epoch in range(draws.row_TSBW.shape[0]):
        for step in range(int(draws.steps_B[0])):
            real = draws.weight_SBW[step, 0] > 0
            batch = Batch(
                torch.from_numpy(draws.row_TSBW[epoch, step, 0][real]),
                torch.from_numpy(draws.label_TSBW[epoch, step, 0][real]),
                torch.from_numpy(draws.weights(epoch, step)[0][real]),
            )
            batches.append((epoch, batch))
    return batches


def _gradients(
    algorithm: ComposedAlgorithm,
    p: Params,
    parameters: list[str],
    batch: Batch,
    round_number: int,
    data: ClientData,
) -> tuple[float, list[Tensor]]:
    """Loss and its gradients; each row's gradient is summed over the samples that read it."""
    free = {name: p[name].detach().requires_grad_() for name in parameters}
    tables = {**p, **free}
    by_row = (*algorithm.row_parameters, *algorithm.content)
    read = {name: tables[name].index_select(0, batch.row_N) for name in by_row}
    if data.history_rows is not None:
        row_H, weight_H = data.history_rows
        read |= {f"{name}{OF_HISTORY}": tables[name].index_select(0, row_H) for name in by_row}
        read[HISTORY_WEIGHT] = weight_H
    loss = algorithm.loss({**tables, **read}, batch, round_number)
    total = loss
    if algorithm.table_penalty is not None and set(parameters) & set(algorithm.row_parameters):
        total = loss + algorithm.table_penalty(tables)
    gradients = list(torch.autograd.grad(total, list(free.values()), materialize_grads=True))
    bound = algorithm.method.local.gradient_clip
    if bound is not None:
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))  # type: ignore[arg-type]
        scale = (bound / norm.clamp(min=1e-30)).clamp(max=1.0)
        gradients = [scale * g for g in gradients]
    return float(loss.detach()), gradients


def _first_states(algorithm: ComposedAlgorithm, p: Params, kept: Params) -> dict[str, Params]:
    states: dict[str, Params] = {}
    for parameter in {
        *algorithm.model_parameters,
        *algorithm.row_parameters,
    } - algorithm.gradients_only:
        own = {
            name.split("/")[1]: value
            for name, value in kept.items()
            if name.split("/")[0] == parameter
        }
        states[parameter] = own or algorithm.optimiser(parameter).init(p[parameter], 0)
    return states


# An upload on its way: bounded and encoded by the channel


class Links(NamedTuple):
    """A channel in three stretches: before the links that encode, those themselves, after them."""

    before: tuple[Transform, ...]
    coding: tuple[Transform, ...]
    after: tuple[Transform, ...]

    @classmethod
    def of(cls, channel: tuple[Transform, ...]) -> Links:
        """Links without a say in the matter stand in front.

        >>> from tacit.parts.channel import Clip, Dense
        >>> Links.of((Dense(), Clip())).after
        ()
        """
        places = [place for place, link in enumerate(channel) if encodes(link)]
        if not places:
            return cls(channel, (), ())
        first, end = places[0], places[-1] + 1
        return cls(channel[:first], tuple(channel[place] for place in places), channel[end:])


def through_channel(
    algorithm: ComposedAlgorithm,
    shared: Params,
    upload: Upload,
    own: Params,
    draws: UploadDraws | None,
) -> tuple[Upload, Params]:
    """An upload as the server reads it, and what the client keeps of it for later."""
    if algorithm.links.coding and upload.change:
        assert draws is not None
        return _encoded(algorithm, upload, own, draws)
    return _bounded(algorithm, shared, upload), {}


def _bounded(algorithm: ComposedAlgorithm, shared: Params, upload: Upload) -> Upload:
    """An upload after the channel's clips, with the bit for a bound that is estimated."""
    if not upload.change:
        return upload
    protection = algorithm.protection
    unit = 1.0 if protection is None else protection.unit(shared)
    factor = upload_factor(algorithm.channel, upload.change, unit=unit)
    passed = _scaled(upload, factor)
    if factor is not None and protection is not None and protection.estimates:
        like = next(iter(upload.change.values()))
        passed.change[BOUND] = protection.bit(factor).to(like.dtype)
    return passed


def _encoded(
    algorithm: ComposedAlgorithm, upload: Upload, own: Params, draws: UploadDraws
) -> tuple[Upload, Params]:
    """An upload through a channel that encodes. Clips before that see the change itself, those
    after it see what the server reads: to scale that, a client scales what it sends."""
    before, coding, after = algorithm.links
    upload = _scaled(upload, upload_factor(before, upload.change))
    waiting = {name: own[name].double() for name in algorithm.waiting}
    read, kept = encoded(coding, _whole(algorithm, upload), waiting, draws)
    every = torch.arange(algorithm.task.n_items)
    passed = Upload(every, {name: value.to(upload.change[name]) for name, value in read.items()})
    kept = {name: value.to(own[name]) for name, value in kept.items()}
    return _scaled(passed, upload_factor(after, passed.change)), kept


def encoded(
    links: tuple[Transform, ...], change: Params, own: Params, draws: UploadDraws
) -> tuple[Params, Params]:
    """Whole changes through these links and back, and what the links keep on the device."""
    shapes = []
    for place, link in enumerate(links):
        shapes.append({name: tuple(value.shape) for name, value in change.items()})
        change, own = link.encode(change, own, replace(draws, link=place))
    for place, link in reversed([*enumerate(links)]):
        change = link.decode(change, shapes[place], replace(draws, link=place))
    return change, own


def _whole(algorithm: ComposedAlgorithm, upload: Upload) -> Params:
    """The changes of all rows in float64; those that were not touched are zero."""
    whole: Params = {}
    for name, value in upload.change.items():
        whole[name] = value.double()
        if name in algorithm.sent_by_row:
            table = whole[name].new_zeros(algorithm.task.n_items, *value.shape[1:])
            whole[name] = table.index_copy_(0, upload.item_R, whole[name])
    return whole


def _scaled(upload: Upload, factor: Tensor | None) -> Upload:
    if factor is None:
        return upload
    return Upload(
        upload.item_R, {name: scaled(v, factor).to(v) for name, v in upload.change.items()}
    )


def upload_factor(
    channel: tuple[Transform, ...], change: Params, batch_dims: int = 0, unit: float = 1.0
) -> Tensor | None:
    """How much of an upload passes the channel's clips; one number per client of a block.

    None where the channel does not clip. Norms are taken over all parameters together, in float64;
    `unit` is a bound that is estimated on the way. Nothing passes of an upload whose norm is no
    finite number: it would be seen in a sum through any noise.
    """
    factor: Tensor | None = None
    for link in channel:
        if link.order is None:
            continue
        flat = [v.double().reshape(*v.shape[:batch_dims], -1) for v in change.values()]
        norm = torch.cat(flat, dim=-1).norm(link.order, dim=-1)
        norm = norm / unit if link.in_units else norm
        step = _factor(link, norm if factor is None else norm * factor)
        factor = step if factor is None else factor * step
    return factor


def _factor(link: Transform, norm: Tensor) -> Tensor:
    """A link's factor of each client's upload; one that may look at several norms sees one."""
    if norm.dim() == 0 or factors_at_once(link):
        return finite_factor(link, norm)
    return torch.stack([finite_factor(link, one) for one in norm])


def scaled(value: Tensor, factor: Tensor) -> Tensor:
    """What passes of an upload, in float64: zeros where its factor is 0, whatever stood there.

    >>> scaled(torch.tensor([2.0, float("nan")]), torch.tensor([0.5, 0.0])).tolist()
    [1.0, 0.0]
    """
    passed = value.double() * factor
    return torch.where(factor == 0, torch.zeros_like(passed), passed)


# Guidance: the global table is mixed into personal ones, after the gates were trained


def table_upload(algorithm: ComposedAlgorithm, shared: Params, client: ClientState) -> Upload:
    """How a personal table differs from the last global one."""
    every = torch.arange(algorithm.task.n_items)
    change = {ITEMS: client.parameters[OWN_ITEMS] - shared[ITEMS]}
    return through_channel(algorithm, shared, Upload(every, change), {}, None)[0]


def guide_client(
    algorithm: ComposedAlgorithm,
    guided: Guided,
    shared: Params,
    client: ClientState,
    data: ClientData,
    round_number: int,
) -> Params:
    """One client's gate and personal table after guidance: a block of one."""
    own = {name: value[None] for name, value in client.parameters.items()}
    if guided.epochs:
        assert data.draws is not None
        history = None
        if data.history_rows is not None:
            row_H, weight_H = data.history_rows
            history = row_H[None], weight_H[None]
        own |= fit_gates(algorithm, guided, shared, own, data.draws, round_number, history)
    mixed_1ID = mix_tables(guided, own, shared[ITEMS])
    gates = {name: own[name][0] for name in guided.gate_parameters}
    return {**gates, OWN_ITEMS: mixed_1ID[0]}


def mix_tables(guided: Guided, own: Params, table_ID: Tensor) -> Tensor:
    """(B, I, D): the personal tables of B clients with the global one mixed in."""
    read = {name: own[name] for name in (OWN_ITEMS, *guided.gate_parameters)}
    mixed: Tensor = vmap(lambda p: guided.mix({**p, ITEMS: table_ID}))(read)
    return mixed


def fit_gates(
    algorithm: ComposedAlgorithm,
    guided: Guided,
    shared: Params,
    own: Params,
    draws: BlockDraws,
    round_number: int,
    history: tuple[Tensor, Tensor] | None,
    rows: Params | None = None,
) -> Params:
    """The gates of B clients after descent on the gates alone, through the mixed table; each
    client may stop by itself.

    `own` has the private parameters of the block; with `rows` the personal rows that it reads are
    given, so that whole tables need not be copied.
    """
    method = algorithm.method
    here = own[guided.gate_parameters[0]].device
    item_BR = torch.from_numpy(draws.item_BR).to(here)
    count = len(item_BR)
    if rows is None:
        rows = {OWN_ITEMS: own[OWN_ITEMS][torch.arange(count, device=here)[:, None], item_BR]}
    rows = {**rows, ITEMS: shared[ITEMS][item_BR]}
    dtype = rows[ITEMS].dtype
    rows |= {name: table.to(here, dtype)[item_BR] for name, table in algorithm.content.items()}
    encoder = {name: shared[name] for name in algorithm.uploads}  # what else is shared
    model = {name: own[name] for name in algorithm.model_parameters if name in own}
    gates = {name: own[name].clone() for name in guided.gate_parameters}
    optimiser = guided.gate_optimiser
    states = {name: stacked_optimizer_state(optimiser, value) for name, value in gates.items()}
    rate = optimiser.rate_at(round_number, algorithm.task.n_items)

    def loss(gate: Params, p: Params, read: Params, label_N: Tensor, weight_N: Tensor) -> Tensor:
        logit_N = algorithm.score_with({**encoder, **p, **read, **gate}, guided.mix)
        return method.objective.loss(logit_N, label_N, weight_N)

    mapped = vmap(loss)
    drawn = (draws.row_TSBW, draws.label_TSBW, draws.weight_SBW, draws.steps_B)
    row_TSBW, label_TSBW, weight_SBW, steps_B = (torch.from_numpy(x).to(here) for x in drawn)
    counts_TSBW = None if draws.counts_TSBW is None else torch.from_numpy(draws.counts_TSBW)
    before_B = torch.full((count,), float("inf"), dtype=torch.float64, device=here)
    alive_B = torch.ones(count, dtype=torch.bool, device=here)
    for epoch in range(row_TSBW.shape[0]):
        loss_B = torch.zeros_like(before_B)
        for step in range(row_TSBW.shape[1]):
            b = ((steps_B > step) & alive_B).nonzero().squeeze(1)
            if not len(b):
                break
            row_BN = row_TSBW[epoch, step, b]
            read = {name: value[b[:, None], row_BN] for name, value in rows.items()}
            if history is not None:
                row_BH, weight_BH = (part.to(here)[b] for part in history)
                read |= {f"{name}{OF_HISTORY}": v[b[:, None], row_BH] for name, v in rows.items()}
                read[HISTORY_WEIGHT] = weight_BH
            gate = {name: value[b].requires_grad_() for name, value in gates.items()}
            weight_BN = weight_SBW[step, b]
            if counts_TSBW is not None:
                weight_BN = weight_BN * counts_TSBW[epoch, step].to(here)[b]
            value_B = mapped(
                gate,
                {name: value[b] for name, value in model.items()},
                read,
                label_TSBW[epoch, step, b],
                weight_BN,
            )
            gradients = torch.autograd.grad(value_B.sum(), list(gate.values()))
            loss_B[b] += value_B.detach().double() * (weight_SBW[step, b] > 0).sum(1)
            for name, gradient in zip(gate, gradients, strict=True):
                state_b = {key: value[b] for key, value in states[name].items()}
                value_b = gate[name].detach()
                if not steps_entrywise(optimiser):  # the block is one client
                    value_b, gradient = value_b[0], gradient[0]
                    state_b = {key: value[0] for key, value in state_b.items()}
                new, state_b = optimiser.update(value_b, gradient, state_b, rate)
                gates[name][b] = new
                for key, value in state_b.items():
                    states[name][key][b] = value
        alive_B &= (before_B - loss_B).abs() >= guided.tolerance * before_B.clamp(max=1e300)
        before_B = loss_B
    return gates
