"""Graphs of users and items: weights by hand, products and gradients against dense ones."""

import numpy as np
import pytest
import scipy.sparse
import torch

from tacit.central import graph as graph_module
from tacit.central.graph import (
    BothWays,
    SparseMatrix,
    both_ways,
    incidence,
    nearest_items,
    normalised,
    pays_dense,
    propagate,
)
from tacit.data.views import Lists
from tacit.errors import TacitError

WIDE = torch.float64
# who has what: the first both items, the second the second one twice; nobody has the third
LINKS = incidence(Lists(np.array([0, 2, 4]), np.array([0, 1, 1, 1])), 3)


def test_links_are_over_the_roots_of_both_degrees() -> None:
    expected_UI = [[1 / np.sqrt(2), 1 / 2, 0], [0, 1 / np.sqrt(2), 0]]
    assert np.allclose(normalised(LINKS).toarray(), expected_UI)
    whole_NN = both_ways(normalised(LINKS)).toarray()
    assert np.allclose(whole_NN[:2, 2:], expected_UI)
    assert np.allclose(whole_NN, whole_NN.T)
    assert not whole_NN[:2, :2].any()
    assert not whole_NN[2:, 2:].any()


def held(name: str) -> SparseMatrix | BothWays:
    """The graph in the three ways in which it may lie in memory."""
    if name == "whole":
        return SparseMatrix.of(both_ways(normalised(LINKS)), WIDE)
    return BothWays.of(LINKS, WIDE, dense=name == "dense")


@pytest.mark.parametrize("name", ["whole", "sparse", "dense"])
def test_propagation_by_hand(name: str) -> None:
    graph = held(name)
    user_UD = torch.tensor([[1.0], [2.0]], dtype=WIDE)
    item_ID = torch.tensor([[3.0], [4.0], [5.0]], dtype=WIDE)
    one = propagate(graph, user_UD, item_ID, 1)
    # the first user hears 3 / sqrt 2 + 4 / 2, the second 4 / sqrt 2; the third item nothing
    assert one[0].flatten().tolist() == pytest.approx([2.5606601718, 2.4142135624])
    assert one[1].flatten().tolist() == pytest.approx([1.8535533906, 2.9571067812, 2.5])
    dense_NN = torch.from_numpy(both_ways(normalised(LINKS)).toarray())
    row_ND = torch.cat([user_UD, item_ID])
    expected_ND = (row_ND + dense_NN @ row_ND + dense_NN @ dense_NN @ row_ND) / 3
    assert torch.allclose(torch.cat(propagate(graph, user_UD, item_ID, 2)), expected_ND)


def test_what_is_held_once_gives_the_same_numbers_as_the_whole() -> None:
    """Bit for bit, the gradient too."""
    generator = np.random.default_rng(0)
    some_UI = scipy.sparse.csr_array((generator.random((40, 30)) < 0.2).astype(float))
    whole = SparseMatrix.of(both_ways(normalised(some_UI)), torch.float32)
    once = BothWays.of(some_UI, torch.float32)
    row_ND, slope_ND = (
        torch.from_numpy(generator.normal(size=(70, 8)).astype(np.float32)) for _ in range(2)
    )
    row_ND.requires_grad_()
    assert torch.equal(once @ row_ND, whole @ row_ND)
    found, expected = (
        torch.autograd.grad(graph @ row_ND, row_ND, slope_ND)[0] for graph in (once, whole)
    )
    assert torch.equal(found, expected)
    assert expected.abs().max() > 0.1


def test_zeros_are_written_out_where_it_pays() -> None:
    """From one entry in a hundred, up to a gigabyte; never on the CPU."""
    assert pays_dense((100, 100), 100, "cuda")
    assert not pays_dense((100, 100), 99, "cuda")
    assert not pays_dense((100, 100), 10_000, "cpu")
    assert pays_dense((1 << 14, 1 << 14), 1 << 28, torch.device("cuda", 1))
    assert not pays_dense((1 << 14, (1 << 14) + 1), 1 << 28, "cuda")
    assert SparseMatrix.of(normalised(LINKS), WIDE).matrix.layout is torch.sparse_csr
    dense = SparseMatrix.of(normalised(LINKS), WIDE, dense=True)
    assert dense.matrix.layout is torch.strided
    assert dense.transposed.data_ptr() == dense.matrix.data_ptr()  # no second copy
    assert np.array_equal(dense.matrix.numpy(), normalised(LINKS).toarray())


@pytest.mark.parametrize("written_out", [False, True])
def test_gradients_of_a_directed_graph_are_those_of_a_dense_one(written_out: bool) -> None:
    generator = np.random.default_rng(0)
    dense_NM = generator.normal(size=(4, 6)) * (generator.random((4, 6)) < 0.5)
    sparse = SparseMatrix.of(scipy.sparse.csr_array(dense_NM), WIDE, dense=written_out)
    slope_ND = torch.from_numpy(generator.normal(size=(4, 3)))
    value_MD = torch.from_numpy(generator.normal(size=(6, 3))).requires_grad_()
    dense = torch.from_numpy(dense_NM) @ value_MD
    assert torch.allclose(sparse @ value_MD, dense)
    found, expected = (
        torch.autograd.grad((product * slope_ND).sum(), value_MD)[0]
        for product in (sparse @ value_MD, dense)
    )
    assert torch.allclose(found, expected)
    assert expected.abs().max() > 0.1


def test_nearest_items_by_hand() -> None:
    """Cosines .6 of the first two, .8 of the last two, 0 of the others; an item is its nearest."""
    value_IF = np.array([[2.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    equal_II = nearest_items(value_IF, 2, "equal").toarray()
    assert np.allclose(equal_II, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]])
    weighted_II = nearest_items(value_IF, 2, "similarity").toarray()
    between = 0.6 / np.sqrt(1.6 * 1.8)  # sums of links are 1.6, 1.8 and 1.8
    assert np.allclose(
        weighted_II, [[1 / 1.6, between, 0], [0, 1 / 1.8, 0.8 / 1.8], [0, 0.8 / 1.8, 1 / 1.8]]
    )


def test_nearest_items_in_pieces_and_at_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    value_IF = np.random.default_rng(0).normal(size=(23, 4)).astype(np.float32)
    whole_II = nearest_items(value_IF, 5, "similarity").toarray()
    assert (np.count_nonzero(nearest_items(value_IF, 5, "equal").toarray(), axis=1) == 5).all()
    monkeypatch.setattr(graph_module, "_SIMILARITIES_AT_ONCE", 60)
    assert np.allclose(nearest_items(value_IF, 5, "similarity").toarray(), whole_II)
    assert np.allclose(nearest_items(value_IF, 99, "equal").toarray(), 1 / 23)
    value_IF[3] = 0  # without content: an item like nobody, which is no reason for NaN
    found_II = nearest_items(value_IF, 5, "similarity").toarray()
    assert np.isfinite(found_II).all()
    assert not found_II[3].any()
    with pytest.raises(TacitError, match="neighbours is 0; it must be at least 1"):
        nearest_items(value_IF, 0, "equal")
