"""`--protocol paper` where a printed number needs quirks of the released code."""

import pytest

from tacit.experiment.plugins import RELEASED_QUIRKS, quirk_notes
from tacit.experiment.resolve import resolve
from tacit.experiment.toml import dumps, loads
from tacit.parts.backbones import LinearHead

ASKED = sorted(RELEASED_QUIRKS)


@pytest.mark.parametrize(("method", "plugins", "data"), ASKED)
def test_paper_takes_them_and_says_so(method: str, plugins: tuple[str, ...], data: str) -> None:
    found = resolve(method, plugins=plugins, data=data, protocol="paper")
    assert found.plugins == RELEASED_QUIRKS[method, plugins, data].plugins
    (note,) = quirk_notes(found)
    assert RELEASED_QUIRKS[method, plugins, data].words in note
    assert note.endswith(f"--protocol {found.protocol.name}.")
    assert loads(dumps(found)) == found


@pytest.mark.parametrize(("method", "plugins", "data"), ASKED)
def test_nothing_else_takes_them(method: str, plugins: tuple[str, ...], data: str) -> None:
    """Neither the protocol by its own name, nor clean, nor other data, nor other plug-ins."""
    paper = resolve(method, plugins=plugins, data=data, protocol="paper")
    text = resolve(method, plugins=plugins, data=data, protocol=paper.protocol.name)
    assert text.plugins == plugins
    assert text.protocol == paper.protocol
    assert text.method != paper.method
    assert text.method == resolve(method, plugins=plugins, data=data).method
    assert text.method == resolve(method, plugins=plugins, protocol="paper").method
    assert quirk_notes(text) == []


def test_fedrkg_on_amazon_video_is_the_released_code() -> None:
    """The row of `fedrkg-main` that spells the same out by hand is the same method."""
    found = resolve("fedmf", plugins=["fedrkg"], data="amazon-video-10", protocol="paper")
    spelled = resolve(
        "fedmf",
        plugins=["fedrkg:clip=1.0"],
        sets=[
            'backbone={part="linear_head"}',
            "local.model.decay=0.99",
            "local.items.decay=0.99",
        ],
    )
    assert found.method == spelled.method
    assert found.rounds == 1000


def test_arguments_of_ones_own_are_taken_at_their_word() -> None:
    asked = ["fedrkg:clip=0.5"]
    found = resolve("fedmf", plugins=asked, data="amazon-video-10", protocol="paper")
    assert found.plugins == ("fedrkg:clip=0.5",)
    assert not isinstance(found.method.backbone, LinearHead)  # type: ignore[union-attr]
    assert found.method.local.gradient_clip == 0.5  # type: ignore[union-attr]
    assert quirk_notes(found) == []
