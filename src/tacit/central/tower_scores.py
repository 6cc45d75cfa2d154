"""Logits of a perceptron for users times all items, compiled."""

from __future__ import annotations

import numpy as np

from tacit.central.lanes import LANES, add_mix
from tacit.central.rows import FAST
from tacit.central.tower_kernel import climb
from tacit.compiled import compiled


@compiled(fastmath=FAST, error_model="numpy")
def tower_scores(  # type: ignore[no-untyped-def]
    upper, widths, user_BJ, item_JI, product_user_BD, product_item_DI, out_BI
):
    """Write all logits.

    The first layer of a pair is the sum of a user's half and an item's; `upper` is the tower above
    it and `widths` begins with its width. Columns of items are a multiple of LANES, so that equal
    columns have equal scores wherever they stand.
    """
    n_items, kind = out_BI.shape[1], out_BI.dtype
    zero = kind.type(0)
    units = np.zeros((widths.sum(), LANES), kind)
    for low in range(0, n_items, LANES):
        here = min(LANES, n_items - low)
        for user in range(len(out_BI)):
            for j in range(widths[0]):
                unit_B, half_B, half = units[j], item_JI[j, low : low + LANES], user_BJ[user, j]
                for b in range(LANES):
                    total = half + half_B[b]
                    unit_B[b] = zero if total <= zero else total
            logit_B = climb(upper, widths, 0, units)
            add_mix(product_user_BD[user], product_item_DI[:, low : low + LANES], logit_B)
            out_BI[user, low : low + here] = logit_B[:here]
