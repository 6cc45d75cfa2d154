"""Logits of perceptrons over whole catalogues, with the table each client really ranks with."""

from __future__ import annotations

from tacit.compiled import compiled
from tacit.engines.kernels.linear_cpu import _FAST
from tacit.engines.kernels.perceptron_pass import forward, make_scratch, set_shift


@compiled(fastmath=_FAST, error_model="numpy", nogil=True)
def score_perceptron(  # type: ignore[no-untyped-def]
    score_BI,
    users,
    table,
    started,
    fresh_U,
    own,
    has_own,
    widths,
    net_BN,
    first,
    first_started,
    is_shared,
    vector_UD,
    has_user,
    tuned_start,
    tuned_count,
    tuned_item,
    tuned_value,
    has_tuned,
    zero,
):
    """`started` is the table of those who took part in the last round; tuned rows lie over it.

    Where the network is shared, `first` and `first_started` are the tables' products with its first
    layer, which are the same for everybody.
    """
    n_items = score_BI.shape[1]
    scratch = make_scratch(widths, n_items, net_BN)
    tile = len(scratch.x)
    for b in range(len(users)):
        user, net = users[b], net_BN[0 if is_shared else b]
        set_shift(net, widths, vector_UD[user if has_user else 0], has_user, scratch.shift)
        rows, known = table, first
        if has_own:
            rows = own[user]
        elif has_tuned and fresh_U[user]:
            rows, known = started, first_started
        for low in range(0, n_items, tile):
            high = min(low + tile, n_items)
            logit = forward(net, widths, rows[low:high], known[low:high], is_shared, scratch, zero)
            for t in range(high - low):
                score_BI[b, low + t] = logit[t]
        if not has_tuned:
            continue
        end = tuned_start[user] + tuned_count[user]
        for low in range(tuned_start[user], end, tile):
            high = min(low + tile, end)
            x = tuned_value[low:high]
            logit = forward(net, widths, x, x, False, scratch, zero)
            for t in range(high - low):
                score_BI[b, tuned_item[low + t]] = logit[t]
