"""One epoch of matrix factorisation, compiled: gradients by hand, lazy rows."""

from __future__ import annotations

import numpy as np

from tacit.central.rows import FAST, step_samples
from tacit.compiled import compiled


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = a[0] * b[0]
    for d in range(1, n):
        total += a[d] * b[d]
    return total


@compiled(fastmath=FAST, error_model="numpy")
def mf_epoch(  # type: ignore[no-untyped-def]
    users,
    users_first,
    users_second,
    users_steps,
    items,
    items_first,
    items_second,
    items_steps,
    user_N,
    item_N,
    label_N,
    batch,
    adam,
    beta1,
    beta2,
    constants,
):
    """All batches in place; returns the sum of the losses.

    The loss of a sample is softplus(z) - y z with z = p·q. Its slope s = sigmoid(z) - y, divided by
    the size of the batch, gives s q for the user's row and s p for the item's.
    """
    width = users.shape[1]
    user_gradient = np.empty((batch, width), users.dtype)
    item_gradient = np.empty((batch, width), users.dtype)
    slope = np.empty(1, users.dtype)
    loss = 0.0
    for low in range(0, len(item_N), batch):
        size = min(batch, len(item_N) - low)
        for t in range(size):
            user, item = users[user_N[low + t]], items[item_N[low + t]]
            logit = np.float64(_dot(user, item, width))
            label = np.float64(label_N[low + t])
            decay = np.exp(-abs(logit))  # never overflows
            loss += max(logit, 0.0) + np.log1p(decay) - label * logit
            probability = (1.0 if logit >= 0 else decay) / (1.0 + decay)
            slope[0] = (probability - label) / size
            scale = slope[0]
            for d in range(width):
                user_gradient[t, d] = scale * item[d]
                item_gradient[t, d] = scale * user[d]
        step_samples(
            users,
            users_first,
            users_second,
            users_steps,
            user_N[low : low + size],
            user_gradient,
            adam,
            beta1,
            beta2,
            constants,
        )
        step_samples(
            items,
            items_first,
            items_second,
            items_steps,
            item_N[low : low + size],
            item_gradient,
            adam,
            beta1,
            beta2,
            constants,
        )
    return loss
