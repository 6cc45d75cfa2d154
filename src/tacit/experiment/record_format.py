"""The versions of `run.json`: which one a file is of, and older ones in the present format."""

from __future__ import annotations

import re
from typing import Any, Literal

from tacit.core.types import EnginePath
from tacit.data.split import BY_LABELS, few_evaluated
from tacit.experiment.sealed import DamagedError, object_in

# 4 had neither guarantees nor ledgers, 3 said nothing of the order of histories, 2 told the engine
# in a sentence, 1 had no digest of data
RECORD_FORMAT: Literal[5] = 5


def format_of(content: bytes) -> int:
    """The format of a `run.json`; 1 is from before there was one.

    >>> format_of(b'{"method": "fedmf"}'), format_of(b'{"format": 2}')
    (1, 2)
    """
    return format_in(object_in(content))


def format_in(found: dict[str, Any]) -> int:
    """The same, of what was read."""
    known = found.get("format", 1)
    if not isinstance(known, int) or isinstance(known, bool):
        raise DamagedError("format: input should be a valid integer")
    return known


# Older files. Format 4 had no guarantee to tell of, and did not tell what crossed. Format 3 did not
# tell how histories are ordered. Format 2 told the engine in one sentence, and neither the kind of
# method nor the device. Format 1 had no digest of its data either.


def present_format(found: dict[str, Any]) -> dict[str, Any]:
    """What a `run.json` holds, in the present format; what it never said is filled in."""
    if found.get("format") == RECORD_FORMAT:
        return found
    unsaid = {"unit": "round", "data": None, "order": None, "ledger": None}
    now = {**unsaid, **found, "format": RECORD_FORMAT}
    sentence, notes, counts = (found.get(key) for key in ("engine", "notes", "counts"))
    if isinstance(sentence, str):
        engine = _engine_of_sentence(sentence)
        kind = {"central": "central", "custom": "custom"}.get(engine.path, "composed")
        device = "cuda" if re.search(r" on cuda\b", sentence) else "cpu"
        now = {"kind": kind, "device": device, **now, "engine": vars(engine)}
    if isinstance(notes, list) and isinstance(counts, dict):
        users = counts.get("evaluated_users")
        few = few_evaluated(users) if isinstance(users, int) and users > 0 else None
        by_labels = [note for note in notes if note == BY_LABELS]
        now = {"cautions": [*by_labels, *([few] if few else [])], **now}
    return now


_PATHS = {
    "loop": "loop",
    "cohort": "cohort",
    "compiled": "compiled",
    "fused": "fused",
    "direct": "custom",
    "central": "central",
}


def _engine_of_sentence(text: str) -> EnginePath:
    """The facts in the sentence with which engines described themselves.

    >>> said = "compiled: additive kernel, blocks of 64 clients on cpu (not asked for)"
    >>> _engine_of_sentence(f"{said}; scores: linear kernel").reason
    'not asked for'
    """
    training, *rest = re.split(r"; (?=guidance: |scores: )", text)
    path, _, words = training.partition(": ")
    steps = dict(part.split(": ", 1) for part in rest)
    if path not in _PATHS:
        raise DamagedError(f"engine: {path!r} is no path that is known")
    named = re.search(r"(?:^|[(])([\w+]+) kernel(?:, |[)])", words)
    kernel = "ragged" if words.startswith("crowd kernels of ") else named and named[1]
    reason = re.search(r" [(](.*)[)]$", words) if path in ("cohort", "compiled", "direct") else None
    return EnginePath(
        path=_PATHS[path],  # type: ignore[arg-type]
        text=text,
        kernel=kernel,
        reason=None if reason is None else reason[1],
        scoring=_kernel(steps.get("scores", "")),
        guidance=_kernel(steps.get("guidance", "")),
    )


def _kernel(words: str) -> str | None:
    found = re.match(r"([\w+]+) kernel$", words)
    return None if found is None else found[1]
