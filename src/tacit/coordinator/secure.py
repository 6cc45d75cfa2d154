"""Secure sums over a server's transport: four steps, and a log with which a killed server goes on.

The plan of a sum follows from the run: uploads have a bound, and under a claim each device adds its
share of Skellam noise, made for the releases that were planned, the fewest survivors and the
colluders among them. The server sees masked vectors and opens nothing but the sum.

Messages that were let in are written down when a step is closed and before the next request, so
that a server which is killed between two steps goes on with the same graph and the same masks. Its
log holds what the server has seen anyway; it is deleted when the sum is open or given up.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from tacit.coordinator.roster import Member, Roster
from tacit.core.algorithm import Algorithm
from tacit.core.protection import Protection, spent_epsilon
from tacit.engines.layout import bounded_length
from tacit.errors import TacitError
from tacit.experiment.checkpoint import write_tensors
from tacit.experiment.sealed import DamagedError, read_sealed, write_sealed
from tacit.files import make_folder
from tacit.privacy.fixed_point import Bits, FixedPoint
from tacit.privacy.guarantee import Guarantee
from tacit.privacy.secure_sum.messages import FromClient, from_bytes, to_bytes
from tacit.privacy.secure_sum.plan import SESSION_BYTES, SumPlan, plan_sum
from tacit.privacy.secure_sum.server import SumResult, SumServer
from tacit.privacy.secure_sum.wire import pack, unpack
from tacit.privacy.skellam import SkellamReleases, skellam_noise
from tacit.wire.messages import Summed, SumStep

STEPS: tuple[SumStep, ...] = ("keys", "shares", "mask", "unmask")
SLACK = 1.0 + 1e-9

# (step, what each node is sent) -> the bodies of answers that were let in, by node
AskStep = Callable[[SumStep, Mapping[str, bytes]], Mapping[str, bytes]]
RefuseBody = Callable[[str], None]


@dataclass(frozen=True)
class SecureSettings:
    """How uploads are added up under masks. A sum of fewer than `fewest` nodes is never opened, and
    up to `colluders` of them may tell the server all they know. `bound` is the largest norm of what
    one person sends, where neither a claim nor the method has one; longer ones are shortened."""

    fewest: int
    colluders: int = 0
    bound: float | None = None
    bits: Bits = 32


def sum_plan(
    algorithm: Algorithm,
    settings: SecureSettings,
    *,
    length: int,
    nodes: int,
    people: int,
    round_number: int,
    session: bytes | None = None,
    bound: float | None = None,
) -> SumPlan:
    """The plan of one sum over so many nodes with at most `people` on each.

    Where a node has many people, noise hides all of them together: a bound on one person's upload
    becomes one on the node's, which is more than was asked for. `bound` takes the place of that of
    uploads where something else is added up.
    """
    claim = algorithm.protection
    # a release that comes in parts is one vector: all its parts have the step and the noise of that
    whole = bounded_length(algorithm, length) if bound is None else length
    bound = (person_bound(algorithm, settings) if bound is None else bound) * people
    known = {
        "clients": nodes,
        "fewest": settings.fewest,
        "colluders": settings.colluders,
        "bound": bound,
        "length": length,
        "bits": settings.bits,
        "round_number": round_number,
        "session": session,
    }
    if claim is None or claim.request.view != "secure_sum":
        return plan_sum(**known)  # type: ignore[arg-type]
    assert claim.releases is not None
    request, releases = claim.request, claim.releases
    # the step follows from the size of the noise, and the noise, a little, from the step
    rough = request.noise(bound, releases)
    asked = {**known, "length": whole, "noise": rough * 1.5}
    step = plan_sum(**asked).code.step  # type: ignore[arg-type]
    code = FixedPoint(bound, step, whole)
    noise = skellam_noise(request.epsilon, request.delta, code, releases=releases) * SLACK
    return plan_sum(**known, noise=noise, step=step)  # type: ignore[arg-type]


def person_bound(algorithm: Algorithm, settings: SecureSettings) -> float:
    """The largest Euclidean norm of what one person adds to a sum, in units of an estimated one."""
    if algorithm.protection is not None:
        return algorithm.protection.bound
    if settings.bound is not None:
        return settings.bound
    if algorithm.bound is not None:
        return algorithm.bound.value  # a bound on absolute values is one on the Euclidean norm, too
    raise TacitError(
        "Secure sums need a bound on uploads, and this method has none; give one "
        "(secure.bound, or a clip in its channel)."
    )


def skellam_guarantee(
    algorithm: Algorithm, plan: SumPlan, releases: int, hits: SkellamReleases | None = None
) -> Guarantee | None:
    """What sums of such a plan promise over so many releases, together with sums of hits; None
    where nothing is claimed."""
    claim = algorithm.protection
    if claim is None or claim.request.view != "secure_sum" or not releases:
        return None
    assert claim.releases is not None
    counted = min(releases, claim.releases)
    known = (plan.promised_noise, counted, claim.request.delta)
    others = () if hits is None else (hits,)
    code = replace(plan.code, length=bounded_length(algorithm, plan.code.length))
    return Guarantee.skellam("secure_sum", code, *known, others)


class SumLog:
    """One sum on disk: its plan, the server's own randomness, and the messages of closed steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, key: str, make: Callable[[bytes], SumPlan]) -> tuple[SumPlan, bytes]:
        """The plan and the seed of the sum with this key: those that were written, or new ones."""
        file = self.folder / "sum.json"
        if file.exists():
            try:
                found = read_sealed(file)
                if found["key"] == key:
                    return unpack(SumPlan, bytes.fromhex(found["plan"])), bytes.fromhex(
                        found["seed"]
                    )
            except (DamagedError, KeyError, ValueError, TypeError, TacitError) as error:
                raise TacitError(
                    f"The log of a secure sum in {str(self.folder)!r} is damaged; delete that "
                    "folder, and the exchange is played with fresh masks."
                ) from error
        self.end()
        plan, seed = make(secrets.token_bytes(SESSION_BYTES)), secrets.token_bytes(32)
        make_folder(self.folder)
        write_sealed(file, {"key": key, "plan": pack(plan).hex(), "seed": seed.hex()})
        return plan, seed

    def read(self, step: SumStep) -> dict[str, bytes] | None:
        file = self.folder / f"{step}.safetensors"
        if not file.exists():
            return None
        try:
            return {name: body.numpy().tobytes() for name, body in load_file(file).items()}
        except (OSError, SafetensorError) as error:
            raise TacitError(
                f"{str(file)!r} is damaged; delete the folder that it is in."
            ) from error

    def write(self, step: SumStep, bodies: Mapping[str, bytes]) -> None:
        tensors = {
            name: torch.from_numpy(np.frombuffer(body, dtype=np.uint8).copy())
            for name, body in bodies.items()
        }
        write_tensors(self.folder / f"{step}.safetensors", tensors)

    def end(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class OpenedSum:
    """A sum, who is in it, and who was asked to send a masked vector for it."""

    value_N: np.ndarray
    survivors: tuple[str, ...]
    asked: tuple[str, ...]


class GivenUpSumError(TacitError):
    """A sum that was given up; `asked` were asked for a masked vector before."""

    def __init__(self, sentence: str, asked: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.asked = asked


def play_sum(
    plan: SumPlan,
    seed: bytes,
    log: SumLog,
    roster: Roster,
    invited: tuple[Member, ...],
    ask: AskStep,
    refuse: RefuseBody,
) -> OpenedSum:
    """All four steps; GivenUpSumError where too few are left. Nothing is opened then."""
    directory = roster.directory
    allowed = {member.number: directory[member.number] for member in invited}
    server = SumServer(plan, allowed, _drawn_from(seed))
    asked: tuple[str, ...] = ()
    requests = {member.name: b"" for member in invited}
    try:
        for step in STEPS:
            if step == "mask":
                asked = tuple(requests)
            bodies = log.read(step)
            if bodies is None:
                bodies = _heard(ask(step, requests), server, roster, refuse)
                log.write(step, bodies)
            else:
                _heard(bodies, server, roster, refuse)
            requests = _next(step, server, roster)
        result = server.total()
    except TacitError as error:
        raise GivenUpSumError(str(error), asked) from error
    return OpenedSum(result.value_N, _names(result, roster), asked)


class SecureSums:
    """The secure sums of one run. `counts` is how often each node was asked for a masked vector, by
    what is summed, and `noise` that of the last such sum under a claim."""

    def __init__(
        self,
        folder: Path,
        roster: Roster,
        counts: Mapping[Summed, dict[str, int]],
        noise: dict[str, tuple[float, float, float]],
    ) -> None:
        self.log = SumLog(folder)
        self.roster, self.counts, self.noise = roster, counts, noise

    def opened(
        self,
        key: str,
        asked: tuple[Member, ...],
        make: Callable[[bytes], SumPlan],
        ask: Callable[[SumPlan], AskStep],
        refuse: RefuseBody,
        *,
        counts: Summed | None,
    ) -> OpenedSum:
        """One sum, from its plan to what is opened; with `counts` it is a release of those who were
        asked for their vectors, whatever comes of it."""
        plan, seed = self.log.begin(key, make)
        sent: tuple[str, ...] = ()
        try:
            found = play_sum(plan, seed, self.log, self.roster, asked, ask(plan), refuse)
            sent = found.asked
            return found
        except GivenUpSumError as error:
            sent = error.asked
            raise
        finally:
            if counts is not None:
                self.noise[counts] = SkellamReleases.of(plan.code, plan.promised_noise)[:3]
                asked_for = self.counts[counts]
                for name in sent:
                    asked_for[name] = asked_for.get(name, 0) + 1

    def spent(self, claim: Protection) -> float | None:
        """The epsilon of uploads and hits so far, of those who were asked most; None before any."""
        if not self.noise:
            return None
        uploads, hits = self.counts["update"], self.counts["hits"]
        names = uploads.keys() | hits.keys()
        counts = {(uploads.get(name, 0), hits.get(name, 0)) for name in names}
        return max((spent_epsilon(claim, self.noise, *one) for one in counts), default=None)


def _heard(
    bodies: Mapping[str, bytes], server: SumServer, roster: Roster, refuse: RefuseBody
) -> dict[str, bytes]:
    """The messages that the sum takes, in the order of the roster."""
    taken = {}
    for member in roster.members:
        body = bodies.get(member.name)
        if body is None:
            continue
        try:
            message = from_bytes(body)
            ours = isinstance(message, FromClient) and message.sender == member.number
            fits = ours and server.receive(message) is None  # type: ignore[arg-type]
        except (TacitError, ValueError, TypeError, OverflowError):
            fits = False
        if fits:
            taken[member.name] = body
        else:
            refuse(member.name)
    return taken


def _next(step: SumStep, server: SumServer, roster: Roster) -> dict[str, bytes]:
    """What nodes are sent in the step after this one."""
    if step == "keys":
        return {roster.by_number[n].name: to_bytes(m) for n, m in server.neighbourhoods().items()}
    if step == "shares":
        return {roster.by_number[n].name: to_bytes(m) for n, m in server.deliveries().items()}
    if step == "mask":
        return {roster.by_number[n].name: to_bytes(m) for n, m in server.requests().items()}
    return {}


def _names(result: SumResult, roster: Roster) -> tuple[str, ...]:
    survivors = set(result.survivors)
    return tuple(member.name for member in roster.members if member.number in survivors)


def _drawn_from(seed: bytes) -> Callable[[int], bytes]:
    """The server's randomness for one sum: it draws the graph, again after a restart."""
    count = 0

    def entropy(length: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(seed + count.to_bytes(8, "big")).digest(length)

    return entropy


def hits_bound(names: int, people: int) -> float:
    """The largest norm of sums of metrics and of the number of people, each at most 1 a person."""
    return people * math.sqrt(names + 1)
