"""Known answers: published vectors of the primitives, Shamir's shares, and a round of our own."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy.fixed_point import FixedPoint
from tacit.privacy.secure_sum.client import SumClient
from tacit.privacy.secure_sum.messages import to_bytes
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.secure_sum.primitives import (
    AgreementKey,
    NodeKey,
    add_mask,
    derived_key,
    is_signed,
    open_box,
    seal,
)
from tacit.privacy.secure_sum.server import SumServer
from tacit.privacy.secure_sum.shamir import PRIME, combine, split
from tacit.privacy.secure_sum.simulation import seeded_entropy

# Published vectors: RFC 7748 (6.1), RFC 8032 (7.1, first), RFC 5869 (A.1), RFC 8439 (A.1).


def test_agreement_is_that_of_the_standard() -> None:
    alice, bob = (
        AgreementKey(bytes.fromhex(secret))
        for secret in (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        )
    )
    public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.public.hex() == public
    agreed = derived_key(bytes.fromhex(shared), b"context", b"label")
    assert alice.agree(bob.public, b"context", b"label") == agreed
    assert bob.agree(alice.public, b"context", b"label") == agreed


def test_a_signature_is_that_of_the_standard() -> None:
    secret = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    key = NodeKey(1, bytes.fromhex(secret))
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.public.hex() == public
    assert key.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
        "b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert is_signed(key.public, key.sign(b""), b"")
    assert not is_signed(key.public, key.sign(b""), b"x")
    assert not is_signed(key.public, b"", b"")
    assert not is_signed(b"short", key.sign(b""), b"")
    assert secret not in repr(key)
    assert str(key.secret) not in repr(key)


def test_a_derived_key_is_that_of_the_standard() -> None:
    found = derived_key(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert found.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


def test_a_mask_is_the_keystream_of_the_standard() -> None:
    stream = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    for bits, count in ((32, 16), (64, 8)):
        total = np.zeros(count, dtype=f"<u{bits // 8}")
        add_mask(total, bytes(32), 1)
        assert total.tobytes().hex() == stream
        add_mask(total, bytes(range(32)), -1)
        add_mask(total, bytes(range(32)), 1)
        add_mask(total, bytes(32), -1)
        assert not total.any()


def test_a_box_opens_only_unchanged() -> None:
    key, box = bytes(32), seal(bytes(32), b"two shares", b"round 1, from 3 to 4")
    assert open_box(key, box, b"round 1, from 3 to 4") == b"two shares"
    assert open_box(key, box, b"round 1, from 4 to 3") is None
    assert open_box(bytes([1] * 32), box, b"round 1, from 3 to 4") is None
    for place in range(len(box)):
        changed = bytearray(box)
        changed[place] ^= 1
        assert open_box(key, bytes(changed), b"round 1, from 3 to 4") is None
    assert open_box(key, b"", b"") is None


def test_a_public_key_of_small_order_is_refused() -> None:
    with pytest.raises(TacitError, match="no key"):
        AgreementKey(bytes([7] * 32)).agree(bytes(32), b"", b"")
    with pytest.raises(TacitError, match="no key"):
        AgreementKey(bytes([7] * 32)).agree(b"short", b"", b"")
    with pytest.raises(TacitError, match="32 bytes"):
        NodeKey(1, b"short")
    with pytest.raises(TacitError, match="below 2"):
        NodeKey(2**64, bytes(32))


# Shares.


def test_the_field_is_prime() -> None:
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # Miller and Rabin
        seen = [pow(base, odd * 2**k, PRIME) for k in range(twos)]
        assert seen[0] == 1 or PRIME - 1 in seen
    assert PRIME > 2**256


def test_shares_by_hand() -> None:
    """5 + 3x at 1, 2 and 4."""
    coefficient = (3).to_bytes(49, "big")
    shares = split((5).to_bytes(32, "big"), [1, 2, 4], needed=2, entropy=lambda _: coefficient)
    assert {x: int.from_bytes(share, "big") for x, share in shares.items()} == {1: 8, 2: 11, 4: 17}


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 7), st.integers(0, 3))
def test_any_of_enough_shares_give_the_secret_back(secret: bytes, needed: int, more: int) -> None:
    points = list(range(1, needed + more + 1))
    shares = split(secret, points, needed, secrets.token_bytes)
    assert all(len(share) == 33 for share in shares.values())
    for some in itertools.combinations(points, needed):
        assert combine({x: shares[x] for x in some}, needed) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_fewer_shares_fit_every_secret(secret: bytes) -> None:
    """Two shares of three needed: for any other secret there is a third share that gives it."""
    shares = split(secret, [1, 2, 3], 3, seeded_entropy(1))
    other = int.from_bytes(b"another secret of thirty-two byt", "big")
    first, second = (int.from_bytes(shares[x], "big") for x in (1, 2))
    # the parabola through (0, other), (1, first), (2, second), at 3
    third = (other - 3 * first + 3 * second) % PRIME
    fitting = {1: shares[1], 2: shares[2], 3: third.to_bytes(33, "big")}
    assert combine(fitting, 3) == other.to_bytes(32, "big")
    assert shares[1] != split(secret, [1, 2, 3], 3, seeded_entropy(2))[1]


def test_shares_that_cannot_be() -> None:
    with pytest.raises(TacitError, match="3 shares of 2"):
        split(bytes(32), [1, 2], 3, secrets.token_bytes)
    with pytest.raises(ValueError, match="32 bytes"):
        split(b"", [1], 1, secrets.token_bytes)
    for points in ([1, 1], [0, 1]):
        with pytest.raises(ValueError, match="differ"):
            split(bytes(32), points, 1, secrets.token_bytes)
    with pytest.raises(TacitError, match="1 shares of a secret that needs 2"):
        combine({1: bytes(33)}, 2)
    with pytest.raises(TacitError, match="do not fit together"):
        combine({1: (2**256 + 5).to_bytes(33, "big")}, 1)


# A round of our own: whoever changes what crosses changes these, and has to say so.


def test_the_first_messages_of_a_fixed_round_stay_what_they_are() -> None:
    code = FixedPoint(bound=1.0, step=2.0**-10, length=5)
    plan = SumPlan(b"sixteen bytes !!", 3, 3, 2, 0, 2, 1, 32, 0.0, code)
    keys = {node: NodeKey(node, bytes([node] * 32)) for node in range(3)}
    directory = {node: key.public for node, key in keys.items()}
    clients = [SumClient(plan, keys[n], directory, seeded_entropy(n)) for n in range(3)]
    server = SumServer(plan, directory)
    for client in clients:
        assert server.receive(client.advertise()) is None
    shares = {n: clients[n].share(one) for n, one in server.neighbourhoods().items()}
    for upload in shares.values():
        assert server.receive(upload) is None
    upload = clients[0].mask(server.deliveries()[0], np.linspace(-0.5, 0.5, 5))
    found = (plan.context, to_bytes(shares[0]), to_bytes(upload))
    assert [hashlib.sha256(one).hexdigest()[:16] for one in found] == VECTOR


VECTOR = ["e0205818d156d5c5", "9ffc101f01b18059", "3e59eddc7bf5b61d"]


def test_without_the_extra_everything_imports_and_one_sentence_says_what_is_missing() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import tacit.privacy, tacit.privacy.guarantee, tacit.privacy.skellam\n"
        "from tacit.errors import TacitError\n"
        "from tacit.privacy.secure_sum import client, plan, primitives, server, simulation\n"
        "chosen = plan.plan_sum(clients=3, fewest=2, colluders=0, bound=1.0, length=2)\n"
        "for act in (lambda: primitives.NodeKey(1, bytes(32)),\n"
        "            lambda: server.SumServer(chosen, {}),\n"
        "            lambda: simulation.simulate_round(chosen, None)):\n"
        "    try:\n"
        "        act()\n"
        "    except TacitError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == 3 * [
        "Secure sums need the package 'cryptography', which is not installed; get it with "
        'pip install "tacit[privacy]"'
    ]
