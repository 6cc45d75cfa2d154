"""Local descent of a block of clients whose whole table is pulled to a guide, for perceptrons.

A row that no sample reads only follows the pull, k steps of which are one step of another length.
So such steps are owed until the row is read or the round ends, and a table is walked through once.
"""

from __future__ import annotations

import numpy as np

from tacit.compiled import compiled
from tacit.engines.kernels.linear_cpu import _FAST, _pull
from tacit.engines.kernels.perceptron_cpu import _gradients
from tacit.engines.kernels.perceptron_pass import make_scratch


@compiled(fastmath=_FAST, error_model="numpy")
def pulled_descent(  # type: ignore[no-untyped-def]
    row_TSBW,
    label_TSBW,
    weight_SBW,
    samples_B,
    user_B,
    own_UID,
    guide_UID,
    widths,
    net_BN,
    vector_BD,
    has_user,
    model_rate,
    item_rate,
    share_K,
    on_probabilities,
    constants,
):
    """Trains in place and returns the sum of the losses over samples and epochs.

    `share_K[k]` is the part of the way to the guide that k steps of the pull alone make.
    """
    epochs, _, clients, batch = row_TSBW.shape
    n_items, width = own_UID.shape[1:]
    zero = constants[0]
    on_row = np.empty((batch, width), own_UID.dtype)
    gradient = np.empty(net_BN.shape[1], own_UID.dtype)
    vector_gradient = np.empty(width, own_UID.dtype)
    scratch = make_scratch(widths, batch, gradient)
    pulled = np.empty(n_items, np.int64)  # steps that a row has made
    loss_sum = 0.0
    for b in range(clients):
        own, guide, net = own_UID[user_B[b]], guide_UID[user_B[b]], net_BN[b]
        vector = vector_BD[b] if has_user else vector_BD[0]
        pulled[:] = 0
        done = 0
        for epoch in range(epochs):
            for step in range(-(-samples_B[b] // batch)):
                size = min(batch, samples_B[b] - step * batch)
                where = row_TSBW[epoch, step, b, :size]
                for t in range(size):
                    row = where[t]
                    if pulled[row] < done:
                        _pull(own[row], guide[row], share_K[done - pulled[row]])
                        pulled[row] = done
                loss_sum += _gradients(
                    net,
                    widths,
                    vector,
                    has_user,
                    own,
                    where,
                    label_TSBW[epoch, step, b, :size],
                    weight_SBW[step, b, 0],
                    on_probabilities,
                    constants,
                    True,
                    True,
                    scratch,
                    gradient,
                    vector_gradient,
                    on_row[:size],
                )
                done += 1
                for i in range(len(net)):
                    net[i] -= model_rate * gradient[i]
                if has_user:
                    for d in range(width):
                        vector[d] -= model_rate * vector_gradient[d]
                for t in range(size):
                    row, moved = own[where[t]], on_row[t]
                    if pulled[where[t]] < done:  # once, however often the row was drawn
                        _pull(row, guide[where[t]], share_K[1])
                        pulled[where[t]] = done
                    for d in range(width):
                        row[d] -= item_rate * moved[d]
        if share_K[1] != zero:
            for row in range(n_items):
                if pulled[row] < done:
                    _pull(own[row], guide[row], share_K[done - pulled[row]])
    return loss_sum
