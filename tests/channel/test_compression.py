"""Links that make uploads smaller: right in the mean, exact in bytes, nothing lost, the same on
every path, and refused where they would promise what they cannot keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from tacit.core.algorithm import Bound, Exchange, UploadDraws
from tacit.core.client import encoded
from tacit.core.fit import CompositionError, Use
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.core.parts import Transform
from tacit.core.protection import promised
from tacit.core.types import ITEMS, WAITING, Initializer, Packed, Task, Upload
from tacit.engines.clients import ClientDraws, client_state
from tacit.engines.cohort import CohortEngine
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import everybody
from tacit.engines.state import initial_state
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.methods import fedmf
from tacit.parts.backbones import DotProduct, LinearHead, SharedMlp
from tacit.parts.channel import Clip, Dense, Gaussian, GaussianSum
from tacit.parts.compression import Quantise, RandomProjection, TopK
from tacit.parts.graph import GraphMean
from tacit.parts.guidance import AdaptiveGuidance
from tacit.parts.local import GradientsOnly, Joint
from tacit.parts.mixture import Mixture
from tacit.parts.server import ServerSteps
from tacit.parts.sync import Anchored, Isolated, Proximal, Replace
from tacit.privacy.guarantee import PrivacyRequest
from tacit.testing import ChannelTests
from tacit.testing.canaries import follow
from tacit.testing.paths import assert_paths_agree, small_train
from tacit.testing.play import algorithm_for, same_to, trace

WIDE = torch.float64
TRAIN = small_train(n_items=24)
JOINT = Joint(items=Sgd(0.1, per_item=2.0), epochs=2, batch=16)
CODING = (Quantise(), Quantise(1), TopK(0.2), RandomProjection(2))
CHAINS = ((Quantise(1),), (TopK(0.3), RandomProjection(2), Quantise(4)))


def with_channel(*links: Transform, backbone: Any = None) -> Method:
    return Method(backbone or DotProduct(4), local=JOINT, channel=(Dense(), *links))


class TestQuantise(ChannelTests):
    link = Quantise(bits=8)
    neutral = Quantise(bits=32)
    before = (Dense(),)


class TestOneScale(ChannelTests):
    link = Quantise(bits=4, scale="tensor")
    neutral = Quantise(bits=32, scale="tensor")
    before = (Dense(), Clip(0.5))


class TestOneBit(ChannelTests):
    link = Quantise(bits=1)
    neutral = Quantise(bits=32)
    before = (Dense(),)


class TestTopK(ChannelTests):
    link = TopK(share=0.2)
    neutral = TopK(share=1.0)
    before = (Dense(),)


class TestRandomProjection(ChannelTests):
    link = RandomProjection(width=2)
    neutral = RandomProjection(width=4)
    before = (Dense(),)


class TestAllOfThem(ChannelTests):
    link = Quantise(bits=4)
    neutral = Quantise(bits=32)
    before = (Dense(), Clip(0.5), TopK(0.3), RandomProjection(2))


# Right in the mean


def read(link: Transform, change: torch.Tensor, number: int, user_key: int = 7) -> torch.Tensor:
    """What the server reads of one change in one round."""
    draws = UploadDraws(seed=5, round_number=number, user_key=user_key)
    return encoded((link,), {ITEMS: change}, {}, draws)[0][ITEMS]


@pytest.mark.parametrize(
    "link",
    [Quantise(1), Quantise(2), Quantise(4), Quantise(8, "tensor"), RandomProjection(2)],
    ids=repr,
)
def test_the_mean_over_rounds_is_the_change(link: Transform) -> None:
    generator = torch.Generator().manual_seed(1)
    change = torch.randn(5, 6, generator=generator, dtype=WIDE)
    change[3] = 0.0
    found = torch.stack([read(link, change, number) for number in range(1, 2001)])
    error = found.std(0) / len(found) ** 0.5
    assert bool((found.std(0)[:3] > 0).any()), "nothing was drawn"
    assert bool(((found.mean(0) - change).abs() <= 4.5 * error + 1e-12).all())
    assert not found[:, 3].any(), "rows of zeros stay zeros"


def test_a_number_takes_the_two_values_around_it() -> None:
    change = torch.tensor([[1.0, 0.4, -0.1, 0.0]], dtype=WIDE)
    found = {tuple(read(Quantise(bits=2), change, number)[0].tolist()) for number in range(1, 200)}
    assert found == {(1.0, a, b, 0.0) for a in (0.0, 1.0) for b in (-1.0, 0.0)}


def test_one_bit_is_a_sign_times_the_largest() -> None:
    change = torch.tensor([[4.0, -1.0], [0.0, 0.5]], dtype=WIDE)
    found = torch.stack([read(Quantise(bits=1), change, number) for number in range(1, 100)])
    assert set(found[:, 0].abs().flatten().tolist()) == {4.0}
    assert set(found[:, 1].abs().flatten().tolist()) == {0.5}
    assert set(found[:, 0, 0].tolist()) == {4.0}


def test_a_subspace_is_that_of_everybody_in_a_round_and_another_in_the_next() -> None:
    change = torch.eye(6, dtype=WIDE)
    one, other = (read(RandomProjection(2), change, 1, user) for user in (7, 8))
    assert torch.equal(one, other)
    assert not torch.allclose(one, read(RandomProjection(2), change, 2))
    share = one / 3  # 6 / 2: a projection, which is itself when it is done again
    assert torch.allclose(share @ share, share, atol=1e-12)
    assert float(torch.trace(share)) == pytest.approx(2)


def test_two_clients_round_by_themselves() -> None:
    change = torch.linspace(-1, 1, 60, dtype=WIDE).view(10, 6)
    assert not torch.equal(*(read(Quantise(2), change, 1, user) for user in (7, 8)))


# Bytes


@pytest.mark.parametrize(
    ("channel", "size"),
    [
        # an item table of 24 rows of 4 numbers; w0 (8, 3), b0 (3,), w1 (3, 1), b1 (1,)
        ((), 96 * 4 + (24 + 3 + 3 + 1) * 4),
        ((Quantise(8),), (96 + 24 * 4) + (24 + 8 * 4) + (3 + 4) + (3 + 4) + (1 + 4)),
        ((Quantise(8, "tensor"),), (96 + 4) + (24 + 4) + (3 + 4) + (3 + 4) + (1 + 4)),
        ((Quantise(1),), (12 + 24 * 4) + (3 + 8 * 4) + (1 + 4) + (1 + 4) + (1 + 4)),
        ((Quantise(32),), 96 * 4 + 31 * 4),
        ((TopK(0.25),), 6 * (4 * 4 + 4) + 2 * (3 * 4 + 4) + 3 * 4 + 3 * 4 + 4),
        ((TopK(1.0),), 96 * 4 + 31 * 4),
        ((RandomProjection(2),), (24 * 2 + 8 * 2 + 2 + 2 + 1) * 4),
        ((RandomProjection(4),), 96 * 4 + 31 * 4),
        (
            (TopK(0.25), RandomProjection(2), Quantise(4)),
            6 * (1 + 4 + 4) + 2 * (1 + 4 + 4) + (1 + 4) + (1 + 4) + (1 + 4),
        ),
    ],
    ids=repr,
)
def test_bytes_by_hand(channel: tuple[Transform, ...], size: int) -> None:
    algorithm = algorithm_for(with_channel(*channel, backbone=SharedMlp(4, (3, 1))), TRAIN)
    shapes = {name: init.shape for name, init in algorithm.shared.items()}
    assert shapes[ITEMS] == (24, 4)
    assert sorted(shapes.values()) == [(1,), (3,), (3, 1), (8, 3), (24, 4)]
    traffic = algorithm.traffic(pytest.fail, [9, 5], width=4)
    down = (96 + 31) * 4
    assert (traffic.up, traffic.down) == (size, down)
    assert (traffic.exchanges, traffic.total) == (14, 14 * (size + down))


def test_what_waits_is_held_by_the_device() -> None:
    plain, sparse = (algorithm_for(with_channel(*c), TRAIN) for c in ((), (TopK(0.2),)))
    assert sparse.floats_on_client == plain.floats_on_client + 96
    assert sparse.private[ITEMS + WAITING] == Initializer((24, 4))


def test_the_record_of_a_run_has_these_bytes() -> None:
    experiment = resolve("pfedrec", rounds=1, plugins=["quantise:scale=tensor"])
    algorithm = experiment.method.algorithm(Task(943, 1682))
    assert algorithm.traffic(pytest.fail, [943], 4).up == 1682 * 32 + 4  # a quarter, and a scale
    sparse = resolve("pfedrec", plugins=["top_k:share=0.1"]).method.algorithm(Task(943, 1682))
    assert sparse.traffic(pytest.fail, [943], 4).up == 168 * (4 + 32 * 4)


@pytest.mark.parametrize("bits", [1, 8])
def test_what_the_server_reads_can_be_rebuilt_from_these_bytes(bits: Literal[1, 8]) -> None:
    generator = torch.Generator().manual_seed(4)
    change = {ITEMS: torch.randn(20, 6, generator=generator).to(WIDE)}
    links, packed = (TopK(0.25), Quantise(bits)), Packed.of((20, 6), width=4)
    own = {ITEMS + WAITING: torch.zeros(20, 6, dtype=WIDE)}
    read = encoded(links, change, own, UploadDraws(0, 1, 7))[0][ITEMS].numpy()
    for link in links:
        packed = link.packed(packed)

    place_K = np.flatnonzero(read.any(1)).astype("<i4")
    scale_K = np.abs(read[place_K]).max(1).astype("<f4")
    levels = 1 if bits == 1 else 127
    whole_KW = np.rint(read[place_K] / scale_K[:, None] * levels)
    body = np.packbits(whole_KW > 0) if bits == 1 else whole_KW.astype("i1")
    message = place_K.tobytes() + scale_K.tobytes() + body.tobytes()
    assert len(message) == packed.size == 5 * 4 + 5 * 4 + (4 if bits == 1 else 30)

    places, rest = np.frombuffer(message[:20], "<i4"), np.frombuffer(message[40:], "u1")
    scales = np.frombuffer(message[20:40], "<f4").astype(np.float64)
    numbers = 2.0 * np.unpackbits(rest)[:30] - 1 if bits == 1 else rest.view("i1")
    rebuilt = np.zeros((20, 6))
    rebuilt[places] = numbers.reshape(5, 6) * scales[:, None] / levels
    assert np.allclose(rebuilt, read, rtol=1e-6, atol=0)


@pytest.mark.parametrize("width", [4, 8])
def test_wider_numbers_have_wider_scales(width: int) -> None:
    assert Quantise(8).packed(Packed.of((10, 4), width)).size == 40 + 10 * width
    assert Quantise(32).packed(Packed.of((10, 4), width)).size == 40 * width


# Error feedback


def test_what_was_sent_and_what_waits_is_the_sum_of_changes() -> None:
    """Exact: whole numbers add up without rounding."""
    generator = torch.Generator().manual_seed(2)
    link, sent = TopK(share=0.3), {ITEMS: Initializer((10, 3))}
    own = {name: torch.zeros(init.shape, dtype=WIDE) for name, init in link.private(sent).items()}
    changes, arrived = torch.zeros(10, 3, dtype=WIDE), torch.zeros(10, 3, dtype=WIDE)
    for number in range(1, 30):
        change = torch.randint(-50, 50, (10, 3), generator=generator).to(WIDE)
        rows_before = (change + own[ITEMS + WAITING]).square().sum(1)
        draws = UploadDraws(seed=0, round_number=number, user_key=1)
        code, own = link.encode({ITEMS: change}, own, draws)
        goes = code[ITEMS].any(1)
        assert int(goes.sum()) == 3
        assert float(rows_before[goes].min()) >= float(rows_before[~goes].max())
        changes, arrived = changes + change, arrived + code[ITEMS]
        assert torch.equal(arrived + own[ITEMS + WAITING], changes)


def test_a_client_of_a_federation_loses_nothing() -> None:
    """Through `update`, with rows that a client touches anew in every round."""
    plain, sparse = (algorithm_for(with_channel(*c), TRAIN) for c in ((), (TopK(0.2),)))
    state = initial_state(sparse, TRAIN, 0, WIDE)
    changes, arrived = torch.zeros(24, 4, dtype=WIDE), torch.zeros(24, 4, dtype=WIDE)
    user = 3
    for number in range(1, 6):
        data = ClientDraws.of(sparse, Exchange(), TRAIN, 0, number, WIDE).client(user)
        client = client_state(sparse, TRAIN, state, user)
        known = (Exchange(), state.shared, client, data, number)
        whole, some = plain.update(*known), sparse.update(*known)
        changes.index_add_(0, whole.upload.item_R, whole.upload.change[ITEMS])
        arrived.index_add_(0, some.upload.item_R, some.upload.change[ITEMS])
        assert int(some.upload.change[ITEMS].any(1).sum()) == 5
        state.private[ITEMS + WAITING][user] = some.private[ITEMS + WAITING]
        assert torch.allclose(arrived + some.private[ITEMS + WAITING], changes, rtol=0, atol=1e-15)
    assert some.private[ITEMS + WAITING].any()


def test_nothing_waits_for_one_who_sends_nothing() -> None:
    algorithm = algorithm_for(with_channel(TopK(0.2)), TRAIN)
    state = initial_state(algorithm, TRAIN, 0, WIDE)
    silent = Exchange(sends=False)
    data = ClientDraws.of(algorithm, silent, TRAIN, 0, 1, WIDE).client(2)
    client = client_state(algorithm, TRAIN, state, 2)
    update = algorithm.update(silent, state.shared, client, data, 1)
    assert ITEMS + WAITING not in update.private


# Every path


CONTENT = small_train(content=True)
HELD = {"local": GradientsOnly(JOINT), "server": ServerSteps(Sgd(0.5), Adam(0.05))}


@pytest.mark.parametrize("chain", CHAINS, ids=("one bit", "all three"))
@pytest.mark.parametrize(
    "method",
    [
        Method(LinearHead(4), sync=Replace(keep=True), local=JOINT),
        Method(DotProduct(4), sync=Anchored(0.5), local=JOINT),  # a rule that moves all rows
        Method(LinearHead(4), Mixture(width=4, id_width=5, hidden=3), **HELD),
        Method(LinearHead(4), Mixture(width=4, id_width=5, placement="server"), **HELD),
    ],
    ids=("tuned rows", "all rows", "views of the device", "views of the server"),
)
def test_paths_agree(method: Method, chain: tuple[Transform, ...]) -> None:
    assert_paths_agree(replace(method, channel=(Dense(), *chain)), CONTENT)


@pytest.mark.parametrize("chain", CHAINS, ids=("one bit", "all three"))
def test_the_order_of_users_changes_nothing(chain: tuple[Transform, ...]) -> None:
    order_U = np.random.default_rng(0).permutation(TRAIN.n_users)
    moved = TRAIN.take(order_U)
    for engine in (LoopEngine(WIDE), CohortEngine(WIDE, block=4)):
        one, two = (trace(with_channel(*chain), train, engine) for train in (TRAIN, moved))
        assert same_to(one.end[ITEMS], two.end[ITEMS], 1e-10 * one.change(ITEMS))


@pytest.mark.parametrize("neutral", [Quantise(32), TopK(1.0)], ids=repr)
def test_a_neutral_link_leaves_the_fast_path_and_every_bit(neutral: Transform) -> None:
    plain, linked = with_channel(), with_channel(neutral)
    said = [CohortEngine().describe(algorithm_for(m, TRAIN)).text for m in (plain, linked)]
    assert said[0] == said[1]
    assert said[0].startswith("fused")
    one, two = (trace(method, TRAIN, CohortEngine()) for method in (plain, linked))
    assert all(torch.equal(value, two.end[name]) for name, value in one.end.items())


@pytest.mark.parametrize("link", CODING, ids=repr)
def test_kernels_decline_and_say_so(link: Transform) -> None:
    algorithm = algorithm_for(with_channel(link), TRAIN)
    path = CohortEngine().describe(algorithm)
    assert (path.path, path.kernel) == ("cohort", None)
    assert path.reason == f"{type(link).__name__} encodes single uploads"
    with pytest.raises(TacitError, match=r"The fused engine cannot run this method: .* encodes"):
        CohortEngine(fused="always").describe(algorithm)


# Bounds


def uploads_of(method: Method) -> list[Upload]:
    uploads: list[tuple[int, Upload]] = []
    engine, algorithm = LoopEngine(WIDE, uploads), algorithm_for(method, TRAIN)
    state = engine.start(algorithm, TRAIN, 0)
    for _ in range(3):
        engine.round(algorithm, TRAIN, state, everybody(TRAIN), 0)
    return [upload for _, upload in uploads]


def largest(method: Method) -> float:
    return max(float(upload.change[ITEMS].norm()) for upload in uploads_of(method))


@pytest.mark.parametrize("link", CODING, ids=repr)
def test_a_bound_holds_where_it_is_claimed(link: Transform) -> None:
    """What packs may lift a norm, so only a clip after it bounds what the server adds up."""
    before, after = with_channel(Clip(0.01), link), with_channel(link, Clip(0.01))
    assert algorithm_for(before, TRAIN).bound is None
    assert algorithm_for(after, TRAIN).bound == Bound(2, 0.01)
    assert largest(after) <= 0.01 * (1 + 1e-12)
    assert_paths_agree(after, TRAIN)


@pytest.mark.parametrize("link", CODING, ids=repr)
def test_no_guarantee_counts_on_a_bound_before_them(link: Transform) -> None:
    noise = GaussianSum(4.0)
    assert promised((Dense(), Clip(1.0), noise), None, releases=5) is not None
    assert promised((Dense(), Clip(1.0), link, noise), None, releases=5) is None
    assert promised((Dense(), link, Clip(1.0), noise), None, releases=5) is not None
    for neutral in (Quantise(32), TopK(1.0)):
        assert promised((Dense(), Clip(1.0), neutral, noise), None, releases=5) is not None


def test_a_bound_before_them_is_really_lifted() -> None:
    assert largest(with_channel(Clip(0.01))) <= 0.01 * (1 + 1e-12)
    for link in (Quantise(1), RandomProjection(2)):
        assert largest(with_channel(Clip(0.01), link)) > 0.0101


# What is said


def told(*links: Transform) -> list[str]:
    return algorithm_for(with_channel(*links), TRAIN).disclosure(pytest.fail).sentences()


def test_disclosure() -> None:
    assert told(Quantise(8)) == [
        "a client sends items (96 numbers)",
        Dense().interpretation(),
        "each number travels as 8 bits, rounded at random so that its mean is true: this saves "
        "bytes and hides nothing by itself",
    ]
    assert told(TopK(0.25)) == [
        "a client sends items (24 numbers)",
        "the 25 % of rows that changed most travel with their places, the others wait on the "
        "device: the server can read which items moved a client most, and which of these were "
        "liked",
    ]
    assert told(RandomProjection(2)) == [
        "a client sends items (48 numbers)",
        Dense().interpretation(),
        "rows travel as 2 numbers each, through a random map that everybody knows: rows of zeros "
        "stay zeros, so it hides nothing",
    ]
    assert told(Quantise(32)) == told(TopK(1.0)) == told()


@pytest.mark.parametrize("link", CODING, ids=repr)
def test_private_values_stay_on_the_device(link: Transform) -> None:
    follow(algorithm_for(with_channel(link), TRAIN), TRAIN)


# Refusals


GUIDED = Method(LinearHead(4), sync=AdaptiveGuidance(0.5, 1, 2, Sgd(0.1)), local=JOINT)
READ = Method(DotProduct(4), sync=Proximal(0.5), server=GraphMean(), local=JOINT)
ALONE = Method(DotProduct(4), sync=Isolated(), local=JOINT)


def through(method: Method, *links: Transform) -> Method:
    return replace(method, channel=(Dense(), *links))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (
            with_channel(Clip(), Quantise(), Gaussian()),
            "Quantise packs uploads into few bits, which the noise of Gaussian would not fit into; "
            "leave Quantise out of the channel, or leave Gaussian out of the channel.",
        ),
        (
            with_channel(Gaussian(), TopK()),
            "TopK packs uploads into few bits, which the noise of Gaussian would not fit into; "
            "leave TopK out of the channel, or leave Gaussian out of the channel.",
        ),
        (
            replace(with_channel(Clip(), Quantise()), privacy=PrivacyRequest(8.0)),
            "Quantise packs single uploads, but a guarantee is about noise on whole ones or on "
            "their sum; leave Quantise out of the channel, or drop plugins=['private'].",
        ),
        (
            with_channel(Quantise(), Quantise(4)),
            "Quantise stands twice in the channel; leave one of the two out.",
        ),
        (
            with_channel(TopK(), Clip(), Quantise()),
            "Clip stands between links that pack uploads, where there is no change to bound; put "
            "it before TopK and Quantise.",
        ),
        (
            with_channel(Quantise(), TopK()),
            "TopK keeps rows of the table itself, which it does not see after Quantise; put TopK "
            "before Quantise.",
        ),
        (
            through(GUIDED, TopK()),
            "AdaptiveGuidance sends whole personal tables, but TopK packs changes of shared ones; "
            "leave TopK out of the channel.",
        ),
        (
            through(READ, Quantise()),
            "GraphMean reads single tables, but Quantise packs changes that are added up; leave "
            "Quantise out of the channel.",
        ),
        (
            through(ALONE, RandomProjection()),
            "Isolated sends nothing, so RandomProjection has nothing to pack; leave "
            "RandomProjection out of the channel.",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else repr(value.channel[1:]),
)
def test_refusals_and_their_remedies(method: Method, sentence: str) -> None:
    with pytest.raises(CompositionError) as refused:
        algorithm_for(method, TRAIN)
    assert str(refused.value) == sentence
    for remedy in refused.value.remedies:
        if isinstance(remedy, Use):
            assert_paths_agree(remedy.applied(method), TRAIN)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Quantise(1, "tensor"), r"Quantise\(bits=1\) with one scale .*let scale be 'row'"),
        (lambda: TopK(0.0), r"share of TopK is 0\.0; it must be more than 0 and at most 1\."),
        (lambda: TopK(1.5), r"share of TopK is 1\.5; it must be more than 0 and at most 1\."),
        (lambda: RandomProjection(0), r"width of RandomProjection is 0; it must be at least 1\."),
    ],
)
def test_settings_that_make_no_sense(make: Callable[[], Transform], sentence: str) -> None:
    with pytest.raises(TacitError, match=sentence):
        algorithm_for(with_channel(make()), TRAIN)


def test_links_take_their_places_in_whatever_order_they_come() -> None:
    names = ["clip:bound=2", "top_k:share=0.2", "project:width=4", "quantise:bits=4"]
    expected = (Dense(), Clip(2.0), TopK(0.2), RandomProjection(4), Quantise(4))
    for plugins in (names, names[::-1], [names[2], names[0], names[3], names[1]]):
        made = resolve("fedmf", plugins=plugins).method
        assert isinstance(made, Method)
        assert made.channel == expected


@pytest.mark.parametrize("plugin", ["quantise", "top_k", "project"])
def test_custom_methods_refuse_them_in_a_sentence(plugin: str) -> None:
    with pytest.raises(CompositionError) as refused:
        resolve("fedease", plugins=[plugin])
    assert str(refused.value) == f"fedease has no parts to plug into; drop plugins=['{plugin}']."


def test_bits_that_nobody_packs_are_refused() -> None:
    with pytest.raises(TacitError, match=r"quantise\.bits is 3.*1, 2, 4, 8, 16.*32"):
        resolve("fedmf", plugins=["quantise:bits=3"])


def test_it_trains_in_a_run() -> None:
    """A quick look that packed uploads still teach something."""
    plain = trace(fedmf(dim=4), TRAIN, LoopEngine(WIDE), rounds=4)
    packed = replace(fedmf(dim=4), channel=(Dense(), Quantise(8)))
    found = trace(packed, TRAIN, LoopEngine(WIDE), rounds=4)
    off = float((found.end[ITEMS] - plain.end[ITEMS]).abs().max())
    assert 0 < off < 0.02 * plain.change(ITEMS)
