"""Values and plain tables: there and back, and every mistake in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tacit.core.codec import assign, decode, encode
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.core.parts import Sync, Transform
from tacit.core.registry import PARTS, part_name
from tacit.data.protocol import Protocol
from tacit.engines.participation import Participation
from tacit.errors import TacitError
from tacit.experiment.spec import DataSpec
from tacit.methods import Ease, fedmf, fedncf, pfedrec
from tacit.parts.backbones import DotProduct
from tacit.parts.channel import Clip, Dense, Gaussian


def refusal(plain: Any, kind: Any, where: str = "") -> str:
    with pytest.raises(TacitError) as caught:
        decode(plain, kind, where)
    return str(caught.value)


def test_encoding_by_hand() -> None:
    assert encode(Clip(bound=2.0)) == {"part": "clip", "bound": 2.0, "order": 2}
    assert encode((Dense(), 3, "x", None)) == [{"part": "dense"}, 3, "x", None]
    assert encode(DataSpec("a", (("user", "who"),))) == {"name": "a", "columns": [["user", "who"]]}


def test_unset_is_left_out_and_comes_back() -> None:
    plain = encode(Sgd(rate=0.5))
    assert "per_item" not in plain
    assert decode(plain, Sgd) == Sgd(rate=0.5)
    assert decode(encode(Sgd(per_item=3.0)), Sgd).per_item == 3.0


@pytest.mark.parametrize(
    "value",
    [
        fedmf(),
        replace(fedmf(), channel=()),
        replace(fedncf(layers=(7, 3, 1)), channel=(Dense(), Clip(0.5, 1), Gaussian(0.2))),
        replace(pfedrec(), local=replace(pfedrec().local, items=Adam(), gradient_clip=2.0)),
    ],
)
def test_methods_there_and_back(value: Method) -> None:
    assert decode(encode(value), Method) == value


def test_every_part_has_one_name() -> None:
    assert len(set(PARTS.values())) == len(PARTS)
    for name, part in PARTS.items():
        assert part_name(part) == name


def test_whole_numbers_become_floats_where_floats_are_meant() -> None:
    found = decode({"part": "clip", "bound": 2}, Transform)
    assert found == Clip(2.0)
    assert isinstance(found.bound, float)


def test_unknown_keys_name_their_place_and_the_nearest() -> None:
    plain = encode(fedmf())
    plain["local"]["items"]["raet"] = 0.1
    assert refusal(plain, Method) == (
        "Unknown key 'local.items.raet'; did you mean 'rate'? Known: decay, per_item, rate, "
        "weight_decay."
    )


def test_unknown_parts() -> None:
    assert refusal({"part": "repalce"}, Sync, "sync").startswith(
        "Unknown part 'repalce' at sync; did you mean 'replace'?"
    )
    for odd in (3, [], True):
        assert refusal({"part": odd}, Sync, "sync").startswith(f"Unknown part {odd!r} at sync; ")


def test_parts_in_the_wrong_slot() -> None:
    assert refusal({"part": "dot"}, Sync, "sync") == (
        "sync cannot be 'dot': that is another kind of part."
    )
    plain = encode(fedmf())
    plain["channel"] = [{"part": "mean"}]
    assert refusal(plain, Method) == ("channel.0 cannot be 'mean': that is another kind of part.")
    plain = encode(fedmf())
    plain["local"]["gradient_clip"] = {"part": "clip"}
    assert "local.gradient_clip cannot be 'clip'" in refusal(plain, Method)
    assert "cannot be 'dense'" in refusal({"part": "dense"}, Protocol, "protocol")


def test_tables_without_a_part() -> None:
    assert refusal({"keep": True}, Sync, "sync") == (
        "sync is a table; add the key 'part' to say which part."
    )
    assert refusal({"x": 1}, int, "seed").startswith("seed is a table;")


@pytest.mark.parametrize("odd", [5, "dense", None, True])
def test_scalars_where_parts_belong(odd: Any) -> None:
    assert refusal(odd, Sync, "sync") == (
        f"sync is {odd!r}, but it must be a part: set one of its fields."
    )
    assert "must be a part" in refusal(odd, tuple[Transform, ...], "channel")


def test_wrong_kinds_of_scalars() -> None:
    assert refusal({"part": "dot", "dim": "many"}, DotProduct, "backbone") == (
        "backbone.dim is 'many': input should be a valid integer, unable to parse string as an "
        "integer."
    )
    assert "backbone.dim is 2.5" in refusal({"part": "dot", "dim": 2.5}, DotProduct, "backbone")
    assert "order is 3: input should be 1 or 2" in refusal({"part": "clip", "order": 3}, Clip)
    assert "ratio is [1]" in refusal({"ratio": [1]}, Participation)


@pytest.mark.parametrize("row", [["user"], ["user", "who", "else"], []])
def test_pairs_have_two_entries(row: list[str]) -> None:
    assert refusal({"columns": [row]}, DataSpec, "data") == (
        f"data.columns.0 is {row!r}: it must have 2 entries."
    )


def test_incomplete_tables() -> None:
    assert refusal({"part": "federated"}, Method, "method").startswith("method is incomplete: ")


def test_a_check_of_the_part_itself_comes_through() -> None:
    assert "must list positive widths" in refusal({"part": "shared_mlp", "layers": []}, Any)


def test_assign_by_hand() -> None:
    method = fedncf()
    assert assign(method, "backbone.layers", "[8, 1]").backbone.layers == (8, 1)
    assert assign(method, "local.gradient_clip", "2").local.gradient_clip == 2.0
    clipped = assign(method, "local.gradient_clip", "2")
    assert assign(clipped, "local.gradient_clip", "none").local.gradient_clip is None
    assert assign(method, "sampling.redraw", "epoch").sampling.redraw == "epoch"
    assert assign(method, "sampling.redraw", '"once"').sampling.redraw == "once"
    assert assign(method, "sync.keep", "true").sync.keep is True
    linked = replace(method, channel=(Dense(), Clip()))
    assert assign(linked, "channel.1.bound", "3").channel == (Dense(), Clip(3.0))
    assert assign(linked, "channel", "[]").channel == ()
    assert assign(Ease(), "ridges", "[1, 2.5]").ridges == (1.0, 2.5)
    assert method == fedncf()


def test_assign_takes_a_part_as_a_table() -> None:
    found = assign(fedmf(), "local.items", '{part = "adam", rate = 0.01}')
    assert found.local.items == Adam(rate=0.01)


@pytest.mark.parametrize(
    ("path", "text", "sentence"),
    [
        ("local.itmes.rate", "1", "Cannot set 'local.itmes.rate': there is no 'itmes' in it; did "),
        ("local.items.rate.x", "1", "Cannot set 'local.items.rate.x': there is no 'x' in it; it "),
        ("channel.4.bound", "1", "Cannot set 'channel.4.bound': there is no '4' in it; known: 0."),
        ("channel.0", "1", "Cannot set 'channel.0' alone; set a field of it, or the whole list."),
        ("channel", "3", "channel is 3, but it must be a part: set one of its fields."),
        ("local", "joint", "local is 'joint', but it must be a part: set one of its fields."),
        ("local.items", '{part = "dot"}', "local.items cannot be 'dot': that is another kind of "),
        ("backbone.dim", "none", "backbone.dim is 'none': input should be a valid integer"),
        ("backbone.dim", "", "backbone.dim is '': input should be a valid integer"),
        ("sampling.redraw", "often", "sampling.redraw is 'often': input should be 'round', "),
    ],
)
def test_assign_refuses(path: str, text: str, sentence: str) -> None:
    with pytest.raises(TacitError) as caught:
        assign(fedmf(), path, text)
    assert str(caught.value).startswith(sentence)
