"""Every encoder by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacit.content.encoder import Encoder, Modality
from tacit.errors import TacitError, nearest

BUILT_IN: dict[Modality, str] = {"text": "ngrams", "image": "colours"}


@dataclass(frozen=True)
class Entry:
    """One encoder: what it is, what it reads, and how it is made.

    >>> ENCODERS["minilm"].reads
    ('text',)
    """

    summary: str
    reads: tuple[Modality, ...]
    load: Callable[[str, Modality, bool], Encoder]  # what follows the colon, modality, download


def _ngrams(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.ngrams import NGrams

    return NGrams()


def _colours(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.colours import Colours

    return Colours()


def _minilm(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.minilm import load_minilm

    return load_minilm()


def _efficientnet(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.efficientnet import load_efficientnet

    return load_efficientnet()


def _clip(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.clip import load_clip

    return load_clip(argument, modality, download=download)


ENCODERS: dict[str, Entry] = {
    "ngrams": Entry("hashed words and pieces of words; built in", ("text",), _ngrams),
    "colours": Entry("colours, edges and layout; built in", ("image",), _colours),
    "minilm": Entry("all-MiniLM-L6-v2; extra", ("text",), _minilm),
    "efficientnet": Entry("EfficientNet-Lite0, ImageNet; extra", ("image",), _efficientnet),
    "clip": Entry("clip:FOLDER or clip:OWNER/NAME; extra", ("text", "image"), _clip),
}


def entry_of(name: str) -> Entry:
    """The entry of a name as it is written after `--encoder`.

    >>> entry_of("clip:my-folder").reads
    ('text', 'image')
    """
    stem, colon, argument = name.partition(":")
    if stem not in ENCODERS:
        raise TacitError(f"Unknown encoder {name!r}; {nearest(stem, ENCODERS)}")
    if stem == "clip" and not argument:
        raise TacitError("Encoder 'clip' needs a model; write clip:FOLDER or clip:OWNER/NAME.")
    if stem != "clip" and colon:
        raise TacitError(f"Encoder {stem!r} takes nothing after a colon; write {stem}.")
    return ENCODERS[stem]


def load_encoder(name: str, modality: Modality, *, download: bool = False) -> Encoder:
    """The encoder of that name for one modality.

    >>> load_encoder("ngrams", "text").width
    256
    """
    entry = entry_of(name)
    if modality not in entry.reads:
        known = ", ".join(key for key, one in ENCODERS.items() if modality in one.reads)
        raise TacitError(f"Encoder {name!r} does not read {modality}s; those that do: {known}.")
    return entry.load(name.partition(":")[2], modality, download)


def choose(modalities: tuple[Modality, ...], given: list[str]) -> dict[Modality, str]:
    """Which encoder reads which modality: those given, or the built-in ones where none is.

    >>> choose(("text", "image"), ["clip:vit"])
    {'text': 'clip:vit', 'image': 'clip:vit'}
    >>> choose(("text",), [])
    {'text': 'ngrams'}
    """
    if not given:
        return {modality: BUILT_IN[modality] for modality in modalities}
    chosen: dict[Modality, str] = {}
    for name in given:
        fits = [one for one in entry_of(name).reads if one in modalities and one not in chosen]
        if not fits:
            raise TacitError(
                f"Encoder {name!r} reads {' and '.join(f'{one}s' for one in entry_of(name).reads)} "
                "and nothing of that kind is left to encode; leave it out, or add --text or "
                "--images."
            )
        chosen |= dict.fromkeys(fits, name)
    for modality in modalities:
        if modality not in chosen:
            raise TacitError(
                f"No encoder was given for the {modality}s; add --encoder {BUILT_IN[modality]}."
            )
    return chosen
