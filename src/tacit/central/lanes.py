"""Layers over a chunk of pairs that lie side by side, compiled: arrays are (width, LANES).

Every loop runs along the pairs and has a length known to the compiler, so it is vectorised without
rests; four rows are taken at a time, so that a sum is loaded and stored once for four products.
"""

from __future__ import annotations

from tacit.central.rows import FAST
from tacit.compiled import compiled

LANES = 128  # pairs of a chunk: what the layers make of them stays close


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def add_mix(weight_K, x_KB, out_B):  # type: ignore[no-untyped-def]
    """Add Σ_k weight_K[k] x_KB[k] to `out_B`."""
    n_rows = len(weight_K)
    for k in range(0, n_rows - 3, 4):
        w0, w1, w2, w3 = weight_K[k], weight_K[k + 1], weight_K[k + 2], weight_K[k + 3]
        x0, x1, x2, x3 = x_KB[k], x_KB[k + 1], x_KB[k + 2], x_KB[k + 3]
        for b in range(LANES):
            out_B[b] += w0 * x0[b] + w1 * x1[b] + w2 * x2[b] + w3 * x3[b]
    for k in range(n_rows - n_rows % 4, n_rows):
        w0, x0 = weight_K[k], x_KB[k]
        for b in range(LANES):
            out_B[b] += w0 * x0[b]


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def add_dots(x_KB, y_B, out_K):  # type: ignore[no-untyped-def]
    """Add x_KB[k] · y_B to each `out_K[k]`."""
    n_rows, zero = len(out_K), y_B.dtype.type(0)
    for k in range(0, n_rows - 3, 4):
        x0, x1, x2, x3 = x_KB[k], x_KB[k + 1], x_KB[k + 2], x_KB[k + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for b in range(LANES):
            s0 += x0[b] * y_B[b]
            s1 += x1[b] * y_B[b]
            s2 += x2[b] * y_B[b]
            s3 += x3[b] * y_B[b]
        out_K[k] += s0
        out_K[k + 1] += s1
        out_K[k + 2] += s2
        out_K[k + 3] += s3
    for k in range(n_rows - n_rows % 4, n_rows):
        x0, s0 = x_KB[k], zero
        for b in range(LANES):
            s0 += x0[b] * y_B[b]
        out_K[k] += s0


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def forward(weight_KJ, bias_J, x_KB, y_JB):  # type: ignore[no-untyped-def]
    """One hidden layer: y = relu(Wᵀ x + b)."""
    zero = y_JB.dtype.type(0)
    for j in range(len(bias_J)):
        y_B = y_JB[j]
        y_B[:] = bias_J[j]
        add_mix(weight_KJ[:, j], x_KB, y_B)
        for b in range(LANES):
            y_B[b] = zero if y_B[b] <= zero else y_B[b]  # what is not a number stays


@compiled(fastmath=FAST, error_model="numpy", inline="always")
def backward(  # type: ignore[no-untyped-def]
    weight_KJ, x_KB, y_JB, slope_JB, weight_slope_KJ, bias_slope_J, x_slope_KB
):
    """From the slopes by y, which are cut where a unit is off: add those by weights and biases, and
    write those by x."""
    n_in, n_out = weight_KJ.shape
    zero = y_JB.dtype.type(0)
    for j in range(n_out):
        y_B, slope_B, total = y_JB[j], slope_JB[j], zero
        for b in range(LANES):
            slope_B[b] = zero if y_B[b] <= zero else slope_B[b]
            total += slope_B[b]
        bias_slope_J[j] += total
        add_dots(x_KB, slope_B, weight_slope_KJ[:, j])
    for k in range(n_in):
        x_slope_KB[k, :] = 0
        add_mix(weight_KJ[k], slope_JB, x_slope_KB[k])
