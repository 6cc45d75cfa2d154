"""Compiled draws of one client: positives, negatives, order.

Engines call these from inside their own kernels; `tacit.data.sampling` is the readable side. The
functions hold no state. `blocked` is a bitmap over items (uint8) that the caller owns and lends:
all zero before and after `draw_ordered` and `draw_client`.
"""

from __future__ import annotations

from tacit.compiled import compiled
from tacit.streams import NEGATIVES, SHUFFLE, draw_below, stream_key

REDRAW_CODES = {"round": 0, "epoch": 1, "once": 2}  # kernels take the number
_ATTEMPTS = 64  # per slot; then an exact choice: the draw ends even for who has nearly every item
_EPOCHS = 65536  # a round owns this many stream numbers, one per local epoch

_compiled = compiled(error_model="numpy")


@_compiled
def client_keys(seed, round_number, epoch, redraw_code, user_key):  # type: ignore[no-untyped-def]
    """(negative key, shuffle key) of one client; rounds count from 1, local epochs from 0.

    Called from Python, the keys come back as plain integers: wrap them in `np.uint64` again before
    handing them on, since numba takes a plain integer for a signed one.
    """
    moment = round_number * _EPOCHS + epoch
    drawn_at = moment
    if redraw_code == 0:
        drawn_at = round_number
    elif redraw_code == 2:
        drawn_at = 0
    negative_key = stream_key(seed, NEGATIVES, drawn_at, user_key)
    return negative_key, stream_key(seed, SHUFFLE, moment, user_key)


@_compiled
def draw_free(key, slot, n_items, n_free, blocked):  # type: ignore[no-untyped-def]
    """An item that is not blocked, uniformly; `n_free` of them there are, at least one.

    Attempt a of slot j is number (j << 16) + a of the stream: no slot depends on how often another
    was refused, so slots can be drawn side by side.
    """
    first = slot << 16
    for attempt in range(_ATTEMPTS):
        item = draw_below(key, first + attempt, n_items)
        if blocked[item] == 0:
            return item
    left = draw_below(key, first + _ATTEMPTS, n_free)
    for item in range(n_items):
        if blocked[item] == 0:
            if left == 0:
                return item
            left -= 1
    return -1


@_compiled
def block(items, blocked):  # type: ignore[no-untyped-def]
    """Mark items in the bitmap; how many were not marked before."""
    n_new = 0
    for item in items:
        n_new += 1 - blocked[item]
        blocked[item] = 1
    return n_new


@_compiled
def unblock(items, blocked):  # type: ignore[no-untyped-def]
    for item in items:
        blocked[item] = 0


@_compiled
def draw_ordered(key, positives, hidden, n_items, n_negatives, out_item, out_label, blocked):  # type: ignore[no-untyped-def]
    """Each positive followed by its negatives, in list order; returns how many samples."""
    n_free = n_items - block(positives, blocked)
    n_free -= block(hidden, blocked)
    n_drawn = min(n_negatives, n_free)
    n = 0
    for j in range(len(positives)):
        out_item[n] = positives[j]
        out_label[n] = 1
        n += 1
        for q in range(n_drawn):
            item = draw_free(key, j * n_negatives + q, n_items, n_free - q, blocked)
            blocked[item] = 1  # distinct within this positive
            out_item[n] = item
            out_label[n] = 0
            n += 1
        unblock(out_item[n - n_drawn : n], blocked)
    unblock(positives, blocked)
    unblock(hidden, blocked)
    return n


@_compiled
def draw_client(  # type: ignore[no-untyped-def]
    negative_key,
    shuffle_key,
    positives,
    hidden,
    n_items,
    n_negatives,
    out_item,
    out_label,
    blocked,
):
    """All samples of one client, shuffled, into the `out` arrays; returns how many."""
    n = draw_ordered(
        negative_key, positives, hidden, n_items, n_negatives, out_item, out_label, blocked
    )
    for i in range(n - 1, 0, -1):
        j = draw_below(shuffle_key, i, i + 1)
        out_item[i], out_item[j] = out_item[j], out_item[i]
        out_label[i], out_label[j] = out_label[j], out_label[i]
    return n
