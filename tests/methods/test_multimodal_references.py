"""VBPR, BM3, MGCN and PGL: what carries each idea, against numbers by hand."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import scipy.sparse
import torch

from tacit.central.embeddings import contrast, summed_norms
from tacit.central.graph import both_ways, incidence, normalised
from tacit.central.multimodal import ContentModel
from tacit.central.samples import Batch
from tacit.core.types import Params
from tacit.data.dataset import FeatureTable, Modalities
from tacit.data.views import Lists, TrainView
from tacit.methods import METHODS, Bm3, Mgcn, Pgl, Vbpr
from tacit.methods.bm3 import unlike
from tacit.methods.mgcn import fused, purified
from tacit.methods.pgl import drawn_links, rebuilt

WIDE, CPU = torch.float64, torch.device("cpu")


def table(*rows: list[float]) -> FeatureTable:
    value_IF = np.array(rows, np.float32)
    return FeatureTable(value_IF, np.ones(len(value_IF), bool))


def view(lists: list[list[int]], n_items: int, **content: FeatureTable) -> TrainView:
    sizes = np.cumsum([0, *(len(one) for one in lists)])
    positives = Lists(sizes, np.concatenate([np.array(one, np.int64) for one in lists]))
    key_U = np.arange(len(lists), dtype=np.uint64)
    empty = Lists.empty(len(lists))
    return TrainView(n_items, positives, key_U, empty, content=Modalities(content))


def tensor(*rows: list[float] | float) -> torch.Tensor:
    return torch.tensor(rows, dtype=WIDE)


def batch(user: list[int], positive: list[int], negative: list[int]) -> Batch:
    return Batch(torch.tensor(user), torch.tensor(positive), torch.tensor(negative))


GENERATOR = np.random.default_rng(0)

# Counts of parameters, from FedMR's Table 5

SIZES = {"ku": (204, 560), "dance": (10231, 1676), "food": (5990, 1125), "movie": (15908, 2528)}
COUNTS = {
    "vbpr": (127_552, 1_482_432, 904_320, 2_263_616),
    "bm3": (1_752_576, 8_600_576, 5_582_848, 12_815_872),
    "mgcn": (708_864, 2_564_800, 1_693_888, 3_855_104),
}


def count(model: ContentModel[object], users: int, items: int) -> int:
    wide = FeatureTable(np.zeros((items, 512), np.float32), np.ones(items, bool))
    train = view([[0]] * users, items, text=wide, image=wide)
    own = sum(init.count for init in model.user_tables(train).values())
    drawn = sum(init.count for init in model.parameters(train).values())
    return own * users + drawn + sum(value.size for value in model.given(train).values())


@pytest.mark.parametrize("name", COUNTS)
def test_models_have_as_many_parameters_as_the_paper_counts(name: str) -> None:
    model = METHODS[name].method("fedmr" if name == "bm3" else "paper")
    found = [count(model, *size) for size in SIZES.values()]  # type: ignore[arg-type]
    assert tuple(found) == COUNTS[name]


def test_pgl_has_as_many_parameters_as_its_tables_and_projections() -> None:
    users, items = SIZES["ku"]
    expected = 2 * 64 * users + 1024 * items + 1024 * 64 + 2 * 64
    assert count(Pgl(), users, items) == expected
    assert count(Pgl(train_content=False), users, items) == expected - 1024 * items


@pytest.mark.parametrize("model", [Vbpr(dim=3), Bm3(dim=3), Mgcn(dim=3), Pgl(dim=3)])
def test_what_is_declared_is_what_there_is(model: ContentModel[object]) -> None:
    train = view([[0, 1], [2], [1]], 3, text=table([1], [2], [3]), image=table([1], [0], [2]))
    start = model.start(train, 0)
    there = sum(value.numel() for name, value in start.items() if "/" not in name)
    own = sum(init.count for init in model.user_tables(train).values())
    drawn = sum(init.count for init in model.parameters(train).values())
    assert there == 3 * own + drawn + sum(value.size for value in model.given(train).values())


# VBPR

VBPR_TRAIN = view([[0]], 2, text=table([2.0], [0.0]), image=table([0.0], [1.0]))
VBPR_P: Params = {
    "user": tensor([1.0, 2.0, 3.0, 4.0]),
    "items": tensor([0.5, -1.0], [1.0, 0.0]),
    "project.w": tensor([1.0, 0.5], [0.2, 0.1]),  # of text, and of image
    "project.b": tensor(0.1, 0.2),
    "bias": tensor(0.3, -0.4),
    "bias.content": tensor(0.25, 2.0),
}


def test_vbpr_scores_by_hand() -> None:
    """Items are [.5, -1, 2.1, 1.2] and [1, 0, .3, .3]."""
    model = Vbpr(dim=2)
    known = model.known(VBPR_TRAIN, WIDE, CPU)
    made = model.embeddings(VBPR_P, known)
    expected_ID = tensor([0.5, -1.0, 2.1, 1.2], [1.0, 0.0, 0.3, 0.3])
    assert torch.allclose(made.item_ID, expected_ID)
    assert (made.user_UD @ made.item_ID.T).flatten().tolist() == pytest.approx([9.6, 3.1])
    assert made.bias_I is None
    # .3 + .25 * 2, and -.4 + 2 * 1
    biased = Vbpr(dim=2, biases=True).embeddings(VBPR_P, known).bias_I
    assert biased is not None
    assert biased.tolist() == pytest.approx([0.8, 1.6])


def test_vbpr_losses_by_hand() -> None:
    """The gap is 9.6 - 3.1 = 6.5, and with biases 6.5 - .8; squares are 30, 7.1 and 1.18."""
    one = batch([0], [0], [1])
    found = {}
    for name, model in {
        "plain": Vbpr(dim=2, penalty=0.0),
        "biases": Vbpr(dim=2, penalty=0.0, biases=True),
        "norms": Vbpr(dim=2, penalty=0.5),
        "squares": Vbpr(dim=2, penalty=0.5, penalised="squares"),
    }.items():
        known = model.known(VBPR_TRAIN, WIDE, CPU)
        found[name] = model.batch_loss(VBPR_P, known, one, GENERATOR).item()
    assert found["plain"] == pytest.approx(np.log1p(np.exp(-6.5)))
    assert found["biases"] == pytest.approx(np.log1p(np.exp(-5.7)))
    assert found["norms"] - found["plain"] == pytest.approx(
        0.5 * (sqrt(30) + sqrt(7.1) + sqrt(1.18))
    )
    assert found["squares"] - found["plain"] == pytest.approx(0.5 * (30 + 7.1 + 1.18) / 2)


def test_what_a_batch_projects_is_what_the_whole_catalogue_would_be() -> None:
    """Repeated items too: each is projected once, and has the slope of all its places."""
    model = Vbpr(dim=2, penalty=0.0)
    train = view([[0], [1]], 3, text=table([2.0], [0.5], [1.0]), image=table([0.0], [1.0], [3.0]))
    p = model.start(train, 0, WIDE)
    p = {name: value.requires_grad_() for name, value in p.items() if "/" not in name}
    some = batch([0, 1, 0], [0, 1, 0], [2, 2, 1])
    known = model.known(train, WIDE, CPU)
    made = model.embeddings(p, known)
    gap_B = (made.user_UD[some.user_B] * made.item_ID[some.positive_B]).sum(1) - (
        made.user_UD[some.user_B] * made.item_ID[some.negative_B]
    ).sum(1)
    expected = torch.nn.functional.softplus(-gap_B).mean()
    loss = model.batch_loss(p, known, some, GENERATOR)
    assert loss.item() == pytest.approx(expected.item())
    slopes = [torch.autograd.grad(x, list(p.values())) for x in (loss, expected)]
    assert all(torch.allclose(*pair) for pair in zip(*slopes, strict=True))


# BM3

BM3_TRAIN = view([[0]], 1, text=table([1.0]))
BM3_P: Params = {
    "user": tensor([1.0, 0.0]),
    "items": tensor([0.0, 1.0]),
    "predictor.w": tensor([2.0, 0.0], [0.0, 1.0]),
    "predictor.b": tensor(0.0, 0.0),
    "project.content.text.w": tensor([1.0, 1.0]),
    "project.content.text.b": tensor(0.0, 0.0),
    "content.text": tensor([1.0]),
}


def test_bm3_by_hand() -> None:
    """u = [.5, .5] and i = [.5, .5] + [0, 1] after the graph; predictions double the first entry.

    Cosines: (P u, i) = 1.25 / sqrt(1.25 * 2.5), (P i, u) = 1.25 / sqrt(3.25 * .5),
    (P m, i) = 2.5 / sqrt(5 * 2.5), (P m, m) = 3 / sqrt(5 * 2).
    """
    model = Bm3(dim=2, dropout=0.0, modalities=("text",))
    known = model.known(BM3_TRAIN, WIDE, CPU)
    loss = model.batch_loss(BM3_P, known, batch([0], [0], [-1]), GENERATOR).item()
    users = 2 - 1.25 / sqrt(1.25 * 2.5) - 1.25 / sqrt(3.25 * 0.5)
    content = 2 - 2.5 / sqrt(5 * 2.5) - 3 / sqrt(5 * 2)
    assert loss == pytest.approx(users + 2 * content + 0.1 * (sqrt(0.5) + sqrt(2.5)))
    assert loss == pytest.approx(1.2295572, abs=1e-6)
    made = model.embeddings(BM3_P, known)
    assert (made.user_UD @ made.item_ID.T).item() == pytest.approx(1 * 1 + 0.5 * 1.5)


def test_bm3_targets_have_no_gradient() -> None:
    one, two = tensor([1.0, 2.0]).requires_grad_(), tensor([2.0, 1.0]).requires_grad_()
    slopes = torch.autograd.grad(unlike(one, two), [one, two], allow_unused=True)
    assert slopes[1] is None
    assert slopes[0].abs().max() > 0.01
    # the whole loss: its slope is that of predictions against constants
    model = Bm3(dim=2, dropout=0.0, modalities=("text",))
    known = model.known(BM3_TRAIN, WIDE, CPU)
    moved = BM3_P | {"project.content.text.b": tensor(0.5, 0.0)}  # a cosine knows no scale
    p = {name: value.clone().requires_grad_() for name, value in moved.items()}
    loss = model.batch_loss(p, known, batch([0], [0], [-1]), GENERATOR)
    user, item = model.vectors(p, known)
    modality = p["content.text"] @ p["project.content.text.w"] + p["project.content.text.b"]
    weight = p["predictor.w"]
    constant = [x.detach() for x in (user, item, modality)]

    def gap(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        product = (prediction * target).sum() / prediction.norm() / target.norm()
        return 1 - product

    expected = gap(user @ weight, constant[1]) + gap(item @ weight, constant[0])
    expected = expected + 2 * gap(modality @ weight, constant[1])
    expected = expected + 2 * gap(modality @ weight, constant[2])
    expected = expected + 0.1 * summed_norms(user, item)
    names = [name for name in p if name != "predictor.b"]
    for name in names:
        found, other = (
            torch.autograd.grad(x, p[name], retain_graph=True)[0] for x in (loss, expected)
        )
        assert torch.allclose(found, other, atol=1e-9), name
        assert found.abs().max() > 1e-3, name


def test_bm3_drops_entries_of_targets_alone() -> None:
    """Without dropout the loss is one number; with it, another for every draw, and scores stay."""
    train = view([[0, 1], [1]], 2, text=table([1.0, 0.3], [0.2, 1.0]))
    plain, dropping = (Bm3(dim=8, dropout=d, modalities=("text",)) for d in (0.0, 0.5))
    p = {name: value for name, value in plain.start(train, 0, WIDE).items() if "/" not in name}
    known, some = plain.known(train, WIDE, CPU), batch([0, 0, 1], [0, 1, 1], [-1, -1, -1])
    losses = {
        model.batch_loss(p, known, some, np.random.default_rng(seed)).item()
        for model in (plain, dropping)
        for seed in (1, 2)
    }
    assert len(losses) == 3
    assert torch.equal(plain.embeddings(p, known).item_ID, dropping.embeddings(p, known).item_ID)


# MGCN


def test_mgcn_purifies_by_hand() -> None:
    """Content 3 is projected to 2 * 3 - 5 = 1; gates are sigmoid(1) and sigmoid(-1)."""
    p = {
        "items": tensor([2.0, 10.0]),
        "project.m.w": tensor([2.0, 0.0]),
        "project.m.b": tensor(-5.0, 0.0),
        "purify.m.w": tensor([1.0, -1.0], [0.0, 0.0]),
        "purify.m.b": tensor(0.0, 0.0),
    }
    found = purified(p, "m", tensor([3.0]))
    assert found[0].tolist() == pytest.approx([2 * 0.7310585786, 10 * 0.2689414214])


def test_mgcn_fuses_by_hand() -> None:
    """q is tanh(x): .5 and 0, so that shares are e^.5 : 1; behaviour 1 asks sigmoid(+-1)."""
    p = {
        "query.w": tensor([1.0]),
        "query.b": tensor(0.0),
        "query.v": tensor(1.0),
        "prefer.a.w": tensor([1.0]),
        "prefer.a.b": tensor(0.0),
        "prefer.b.w": tensor([-1.0]),
        "prefer.b.b": tensor(0.0),
    }
    one = float(np.arctanh(0.5))
    found = fused(p, tensor([1.0]), {"a": tensor([one]), "b": tensor([0.0])}).item()
    common = one * np.exp(0.5) / (np.exp(0.5) + 1)
    expected = common + 0.7310585786 * (one - common) + 0.2689414214 * (0 - common)
    assert found == pytest.approx(expected / 3)
    alone = fused(p, tensor([1.0]), {"a": tensor([one])}).item()
    assert alone == pytest.approx(one / 2)  # one modality is all that is common


def test_mgcn_is_its_formulas_written_out_densely() -> None:
    rng = np.random.default_rng(1)
    text, image = (table(*rng.normal(size=(5, width)).tolist()) for width in (3, 2))
    train = view([[0, 1, 4], [1, 2], [3, 2, 0]], 5, text=text, image=image)
    model = Mgcn(dim=4, neighbours=2, batch=8, contrast_weight=0.3, penalty=0.7)
    p = {name: value for name, value in model.start(train, 0, WIDE).items() if "/" not in name}
    known = model.known(train, WIDE, CPU)
    link_UI = normalised(incidence(train.positives, 5))
    whole_NN = torch.from_numpy(both_ways(link_UI).toarray())
    row_ND = torch.cat([p["user"], p["items"]])
    behaviour_ND = (row_ND + whole_NN @ row_ND + whole_NN @ whole_NN @ row_ND) / 3
    seen = {}
    for modality, value_IF in (("text", text.value_IF), ("image", image.value_IF)):
        unit_IF = value_IF / np.linalg.norm(value_IF, axis=1, keepdims=True)
        cosine_II = unit_IF.astype(float) @ unit_IF.T.astype(float)
        second_I1 = np.sort(cosine_II, axis=1)[:, -2:-1]
        kept_II = np.where(cosine_II >= second_I1, cosine_II, 0)
        root_I = kept_II.sum(axis=1) ** -0.5
        near_II = torch.from_numpy(root_I[:, None] * kept_II * root_I)
        name = f"content.{modality}"
        item_ID = near_II @ purified(p, name, p[name])
        seen[name] = torch.cat([torch.from_numpy(link_UI.toarray()) @ item_ID, item_ID])
    side_ND = fused(p, behaviour_ND, seen)
    made = model.embeddings(p, known)
    found_ND = torch.cat([made.user_UD, made.item_ID])
    assert torch.allclose(found_ND, behaviour_ND + side_ND, atol=1e-6)
    some = batch([0, 2], [1, 3], [2, 4])
    loss = model.batch_loss(p, known, some, GENERATOR).item()
    user, one, two = (found_ND[[0, 2]], found_ND[[4, 6]], found_ND[[5, 7]])
    expected = torch.nn.functional.softplus((user * (two - one)).sum(1)).mean()
    squares = sum(x.square().sum() for x in (user, one, two))
    expected = expected + 0.7 * squares / 2 / 8  # over a whole batch of eight, though two are here
    for rows in ([4, 6], [0, 2]):
        expected = expected + 0.3 * contrast(side_ND[rows], behaviour_ND[rows], 0.2)
    assert loss == pytest.approx(expected.item(), rel=1e-6)


def test_a_contrast_is_its_exponentials_written_out() -> None:
    one, other = (torch.from_numpy(np.random.default_rng(s).normal(size=(4, 3))) for s in (1, 2))
    cosine = torch.nn.functional.cosine_similarity(one[:, None], other[None], dim=2)
    exp = torch.exp(cosine / 0.2)
    expected = -torch.log(exp.diagonal() / exp.sum(dim=1)).mean()
    assert contrast(one, other, 0.2).item() == pytest.approx(expected.item())


# PGL

LINKS = incidence(Lists(np.array([0, 2, 3]), np.array([0, 1, 1])), 2)


def test_pgl_draws_links_by_their_weights() -> None:
    """Weights 1 / sqrt(2 * 1), 1 / sqrt(2 * 2) and 1 / sqrt(1 * 2)."""
    drawn = np.zeros((2, 2))
    for seed in range(4000):
        one = drawn_links(LINKS, 0.34, np.random.default_rng(seed))
        assert one.nnz == 1
        drawn += one.toarray()
    weight_UI = np.array([[sqrt(0.5), 0.5], [0, sqrt(0.5)]])
    assert np.allclose(drawn / 4000, weight_UI / weight_UI.sum(), atol=0.03)


def test_pgl_trains_on_a_part_of_the_links_and_ranks_with_all() -> None:
    rng = np.random.default_rng(0)
    lists = [sorted(rng.choice(12, size=5, replace=False).tolist()) for _ in range(9)]
    text, image = (table(*rng.normal(size=(12, 3)).tolist()) for _ in range(2))
    train, model = view(lists, 12, text=text, image=image), Pgl(dim=3)
    known = model.known(train, WIDE, CPU)
    first, second = (model.in_epoch(known, 0, number) for number in (1, 2))
    whole_NN, *parts = (
        (one.graph @ torch.eye(9 + 12, dtype=WIDE)).numpy() for one in (known, first, second)
    )
    assert np.count_nonzero(whole_NN) == 2 * 45
    for part_NN in parts:
        assert np.count_nonzero(part_NN) == 2 * 13  # .3 * 45, rounded down
        assert not (part_NN[whole_NN == 0]).any()
        links_UI = scipy.sparse.csr_array((part_NN[:9, 9:] > 0).astype(float))
        assert np.allclose(part_NN[:9, 9:], normalised(links_UI).toarray())  # by its own degrees
    assert not np.array_equal(parts[0] > 0, parts[1] > 0)
    again_NN = (model.in_epoch(known, 0, 1).graph @ torch.eye(9 + 12, dtype=WIDE)).numpy()
    assert np.array_equal(again_NN, parts[0])


def test_pgl_items_by_hand() -> None:
    """Content halves of length one; the nearest of each item is itself, so h is the item."""
    train = view([[0]], 2, text=table([1.0, 0.0], [0.0, 1.0]), image=table([0.0, 2.0], [3.0, 0.0]))
    model = Pgl(dim=2, neighbours=1, layers=1)
    p: Params = {"user": tensor([0.5, 0.0]), "user.image": tensor([0.0, 0.25])}
    for name in ("text", "image"):
        p[f"project.content.{name}.w"] = tensor([3.0, 4.0], [0.0, 7.0])
        p[f"project.content.{name}.b"] = tensor(0.0, 0.0)
    p |= {"content.text": tensor([1.0, 0.0], [0.0, 1.0])}
    p |= {"content.image": tensor([0.0, 2.0], [3.0, 0.0])}
    made = model.embeddings(p, model.known(train, WIDE, CPU))
    item_ID = tensor([0.6, 0.8, 0.0, 1.0], [0.0, 1.0, 0.6, 0.8])
    user_UD = tensor([0.5, 0.0, 0.0, 0.25])
    # the first item and the user hear each other; the second item has nobody
    assert torch.allclose(made.user_UD, (user_UD + item_ID[:1]) / 2)
    assert torch.allclose(made.item_ID[0], (item_ID[0] + user_UD[0]) / 2 + item_ID[0])
    assert torch.allclose(made.item_ID[1], item_ID[1] / 2 + item_ID[1])


def test_pgl_weighs_nearest_items_of_text_and_image() -> None:
    """Text says 0 is near 1, image says 0 is near 2."""
    text = table([1.0, 0.0], [1.0, 0.1], [0.0, 1.0])
    image = table([1.0, 0.0], [0.0, 1.0], [1.0, 0.1])
    known = Pgl(neighbours=2).known(view([[0]], 3, text=text, image=image), WIDE, CPU)
    assert known.nearest.matrix.to_dense()[0].tolist() == pytest.approx([0.5, 0.45, 0.05])


def test_pgl_global_graph_by_hand() -> None:
    """Singular values 8, 7, ..: of the eight largest the first two, times the last two."""
    value_N = [*np.arange(8, 0, -1.0).tolist(), 1e-9]
    found = rebuilt(scipy.sparse.csr_array(np.diag(value_N)), 8).toarray()
    assert np.allclose(np.diag(found)[:2], [8 * 2, 7 * 1])
    assert np.count_nonzero(found) == 2
