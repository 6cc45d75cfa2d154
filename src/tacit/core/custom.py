"""Custom algorithms: federated methods that are no expression over a trained item table.

Closed forms, hyper-networks and autoencoders say themselves what a client receives, does and sends.
Every function is for ONE client and pure, and maps over clients (torch.func.vmap): no shapes that
depend on data, no `.item()`, gradients through torch.func. Engines pad, map and add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from tacit.core.algorithm import (
    TRAIN,
    Algorithm,
    Bound,
    ClientData,
    ClientState,
    Disclosure,
    Draws,
    Exchange,
    Kind,
    Parcel,
    Sample,
    Sent,
    ServerState,
    Total,
    Traffic,
    Update,
    require_as_written,
)
from tacit.core.capabilities import defines
from tacit.core.client import scaled
from tacit.core.fit import CompositionError, LeaveOut, Use
from tacit.core.parts import Transform
from tacit.core.protection import Protection, promised, row_factor
from tacit.core.ragged import AbsorbsBlocks, LinearInHistory, RunsRagged, StepsInPlace
from tacit.core.recency import Recency
from tacit.core.registry import part_name
from tacit.core.types import BOUND, Initializer, Params, Task, Upload
from tacit.data.dataset import Modalities
from tacit.data.sampling import Sampling
from tacit.errors import TacitError, shown
from tacit.privacy.guarantee import Guarantee, PrivacyRequest


class CustomMethod:
    """A method that writes its algorithm itself. What has a default here need not be written.

    Server and clients share the parameters of `shared`; those of `private` stay on the device.
    `row_parameters` are parameters that a client sends as one row for each item of its history: all
    other rows of the table are zero. `sampling` says how negatives are drawn; None if the method
    looks at histories alone. With `reads = "each"` the server needs every single upload.

    A method whose `score` reads the history through `data.real_H` may have a field `recency`: a
    client then ranks with weights in the place of ones. What is learnt and sent stays as it is.

    A method whose server needs only sums may have a field `privacy`, the guarantee that is asked
    for: uploads are then clipped, unless its `bound` bounds them, and sums get noise.
    """

    composed: ClassVar[None] = None
    # named data that whoever chose the settings of a recipe for claims had in sight
    chosen_on: ClassVar[tuple[str, ...]] = ()
    recency: Recency | None = None
    privacy: PrivacyRequest | None = None

    @property
    def reads(self) -> Literal["sum", "each"]:
        return "sum"

    @property
    def sampling(self) -> Sampling | None:
        return None

    @property
    def row_parameters(self) -> frozenset[str]:
        return frozenset()

    def uploads(self, task: Task) -> frozenset[str]:
        """The parameters that clients may send; the disclosure names them all. Without a word of
        its own a method may send every shared one."""
        return frozenset(self.shared(task))

    def sent_in(self, round_number: int) -> frozenset[str] | None:
        """What clients send in a round, where rounds differ; None: the same in all that send."""
        return None

    @property
    def shows_history(self) -> frozenset[str]:
        """Uploaded parameters that come whole, and are zero but for items of the history; the
        disclosure says so."""
        return frozenset()

    @property
    def sends_private(self) -> frozenset[str]:
        """Uploaded parameters that hold values of private ones, as the method wants it; the
        disclosure says so."""
        return frozenset()

    @property
    def third_party(self) -> frozenset[str]:
        """Uploaded parameters that go to somebody else than the server, who reads each of them."""
        return frozenset()

    @property
    def reads_order(self) -> bool:
        """Whether clients look at the order of their histories: then `data.order_H` is given, and
        histories of a ragged batch run from the earliest item to the latest."""
        return False

    @property
    def history_parameters(self) -> frozenset[str]:
        """Private tables of which a client reads and moves only the rows of its history; they
        begin the same for all clients."""
        return frozenset()

    @property
    def runs_ragged(self) -> bool:
        """Whether `update_ragged` and `score_ragged` do the same for a ragged batch of clients."""
        return False

    @property
    def steps_on_gpu(self) -> bool:
        """Whether `step` also works on tensors that lie on a GPU, where dense solves of a wide
        catalogue take seconds instead of minutes. Clients are played on the CPU all the same."""
        return False

    @property
    def bound(self) -> Bound | None:
        """The most that one client adds to the sum of an exchange, its tables taken together; None
        where nothing bounds it."""
        return None

    @property
    def max_rounds(self) -> int | None:
        """How many rounds there are, where later ones would bring nothing new."""
        return None

    @property
    def ranks_unseen(self) -> bool:
        """Whether it ranks items that nobody has touched: then `complete` sees all content."""
        return False

    @property
    def settings_tried(self) -> int:
        """How many settings its rounds try, of which validation picks one."""
        return 1

    def protected(self, request: PrivacyRequest) -> CustomMethod:
        """The method under a claim, for those that have a field `privacy`: with uploads that bound
        themselves and one setting in the place of several, where it has such. Another method may
        take its place; it keeps what was set, or refuses it (`carried_over`)."""
        return replace(self, privacy=request)  # type: ignore[type-var]

    def algorithm(self, task: Task) -> CustomAlgorithm:
        """The method on a catalogue of known size; a claim that it cannot keep is refused."""
        if self.privacy is not None and self.reads == "each":
            raise CompositionError(
                f"The server of {type(self).__name__} reads every single upload, and a guarantee "
                "is about sums",
                LeaveOut(("private",)),
            )
        algorithm = CustomAlgorithm(self, task)
        if self.privacy is not None and self.privacy.quantile and algorithm.bound is not None:
            raise CompositionError(
                f"{type(self).__name__} bounds uploads by itself, so there is no quantile to "
                "follow",
                Use("take its own bound", "privacy.quantile", None),
            )
        return algorithm

    def shared(self, task: Task) -> dict[str, Initializer]:
        """What the server holds, its optimizer state included."""
        raise NotImplementedError

    def private(self, task: Task) -> dict[str, Initializer]:
        """What a client keeps."""
        return {}

    def noise(self, task: Task) -> dict[str, Initializer]:
        """What each client draws anew in every round (dropout masks, latent noise)."""
        return {}

    def sends(self, round_number: int) -> bool:
        """Whether clients send in a round."""
        return True

    def broadcast(self, shared: Params, user: Tensor) -> Params:
        """What one client receives."""
        return shared

    def update(
        self, received: Params, private: Params, data: ClientData, round_number: int
    ) -> tuple[Params, Params]:
        """One client's round: its private parameters afterwards, and its upload."""
        raise NotImplementedError

    def absorb(self, shared: Params, user: Tensor, upload: Params) -> Params:
        """One upload as the server adds it up: mostly the upload itself."""
        return upload

    def step(self, shared: Params, total: Params, n_clients: int, round_number: int) -> Params:
        """The server's next parameters, from the sum over the clients that reported."""
        raise NotImplementedError

    def complete(self, shared: Params, content: Modalities) -> Params:
        """What the server holds after a step, with rows made for items that nobody has touched;
        `content` describes the whole catalogue. Asked only where `ranks_unseen` says so."""
        return shared

    def score(self, received: Params, private: Params, data: ClientData) -> Tensor:
        """One client's logits over the whole catalogue; `data` has the history and no samples."""
        raise NotImplementedError

    def interpretation(self) -> list[str]:
        """What a server can read out of what clients send, in sentences for the report."""
        return []


def carried_over(method: CustomMethod, recipe: type[CustomMethod]) -> dict[str, Any]:
    """The settings of a method that are not its defaults, for the recipe that takes its place under
    a claim. One that the recipe does not have is refused, and never dropped in silence."""
    known = {field.name for field in fields(recipe)}  # type: ignore[arg-type]
    changed: dict[str, Any] = {
        field.name: getattr(method, field.name)
        for field in fields(method)  # type: ignore[arg-type]
        if field.name != "privacy" and getattr(method, field.name) != field.default
    }
    for name, value in changed.items():
        if name not in known:
            raise without_meaning(method, name, value)
    return changed


def without_meaning(method: CustomMethod, name: str, value: Any) -> TacitError:
    """What is said of a setting that a claim would have to drop."""
    title = part_name(type(method)) or type(method).__name__
    return TacitError(
        f"{name} of {title} is {shown(value)}, which has no meaning under private; leave it out."
    )


@dataclass(frozen=True)
class CustomAlgorithm(Algorithm):
    """The contract of a custom method: it calls the method's own functions."""

    def __init_subclass__(cls) -> None:
        require_as_written(cls, CustomAlgorithm, "write it into a CustomMethod")

    method: CustomMethod
    task: Task
    kind: ClassVar[Kind] = "custom"
    steps_alone: ClassVar[bool] = True

    @cached_property
    def shared(self) -> dict[str, Initializer]:
        added = {} if self.protection is None else self.protection.shared
        return {**self.method.shared(self.task), **added}

    @cached_property
    def private(self) -> dict[str, Initializer]:
        return self.method.private(self.task)

    @property
    def custom(self) -> CustomAlgorithm:
        return self

    @property
    def sent_by_row(self) -> frozenset[str]:
        return self.method.row_parameters

    @cached_property
    def uploads(self) -> frozenset[str]:
        added = () if self.protection is None else self.protection.shared
        return self.method.uploads(self.task).union(added)

    @cached_property
    def history_parameters(self) -> frozenset[str]:
        kept = self.method.history_parameters
        return (
            kept if defines(self.method, "history_parameters", "update", "score") else frozenset()
        )

    @property
    def bound(self) -> Bound | None:
        """The method's word, where one class wrote both the bound and all that is added up."""
        written = defines(self.method, "bound", "update", "absorb")
        return self.method.bound if written else None

    @property
    def max_rounds(self) -> int | None:  # type: ignore[override]
        return self.method.max_rounds

    @property
    def ranks_unseen(self) -> bool:  # type: ignore[override]
        return self.method.ranks_unseen

    # A claim of privacy

    @cached_property
    def protection(self) -> Protection | None:
        if self.method.privacy is None:
            return None
        own = None if self.bound is None else self.bound.value
        found = Protection.of(self.method.privacy, own, self.task.releases)
        return replace(found, releases=self._counted(found))

    def _counted(self, found: Protection) -> int | None:
        """How many releases noise is made for: one, where a bound holds for all of them together
        and no clip of single uploads takes its place."""
        whole = self.bound is not None and self.bound.together and not found.clips
        return min(found.releases, 1) if whole and found.releases is not None else found.releases

    @property
    def clips(self) -> bool:
        """Whether each upload is clipped, which nothing that adds clients up at once can do."""
        return self.protection is not None and self.protection.clips

    @cached_property
    def channel(self) -> tuple[Transform, ...]:
        return () if self.protection is None else self.protection.links

    def guarantee(self, releases: int) -> Guarantee | None:
        if self.protection is None or self.method.reads == "each" or not releases:
            return None
        counted = self._counted(replace(self.protection, releases=releases))
        assert counted is not None
        return promised(self.channel, self.bound, counted, self.protection.request.delta)

    # Behaviours that are written once more for speed, where the method's own class wrote both

    @cached_property
    def ragged(self) -> RunsRagged | None:
        """The method, where it can play all clients as one ragged batch with its settings."""
        alone = ("broadcast", "update", "absorb", "score")
        written = defines(self.method, "runs_ragged", "update_ragged", "score_ragged", *alone)
        together = written and self.method.runs_ragged and not self.clips
        return self.method if together else None  # type: ignore

    @property
    def has_ragged(self) -> bool:
        """Whether the method has a ragged batch's functions at all, its own or inherited."""
        return hasattr(self.method, "update_ragged")

    @cached_property
    def linear(self) -> LinearInHistory | None:
        """The method, where it says what each item of a history brings to a logit."""
        return self.method if defines(self.method, "contributions", "score") else None  # type: ignore

    @cached_property
    def absorbs_blocks(self) -> AbsorbsBlocks | None:
        """The method, where it adds up the uploads of a block at once."""
        written = defines(self.method, "absorb_block", "absorb", "broadcast")
        return self.method if written and self.protection is None else None  # type: ignore

    @cached_property
    def steps_on_gpu(self) -> bool:
        """The method's word, where one class wrote both it and the step, and content and steps in
        place have no part in it."""
        written = defines(self.method, "steps_on_gpu", "step") and self.in_place_server is None
        return written and self.method.steps_on_gpu and not self.ranks_unseen

    @cached_property
    def in_place_server(self) -> StepsInPlace | None:
        """The method, where its server can step in place."""
        written = defines(self.method, "step_in_place", "step") and not self.ranks_unseen
        return self.method if written else None  # type: ignore

    def exchanges(self, round_number: int) -> tuple[Exchange, ...]:
        sends, sent = self.method.sends(round_number), self.method.sent_in(round_number)
        return (Exchange(TRAIN, sends=sends, parameters=sent if sends else None),)

    def sends(self, round_number: int) -> bool:
        return self.method.sends(round_number)

    def draws(self, exchange: Exchange) -> Draws:
        noise, order = self.method.noise(self.task), self.method.reads_order
        return Draws(self.method.sampling, noise=noise, order=order)

    def broadcast(self, server: Params, user: Tensor) -> Params:
        added = {BOUND: server[BOUND]} if BOUND in self.shared else {}
        return {**self.method.broadcast(_without_bound(server), user), **added}

    def update(
        self,
        exchange: Exchange,
        received: Params,
        client: ClientState,
        data: ClientData,
        round_number: int,
    ) -> Update:
        given = _without_bound(received)
        kept, sent = self.method.update(given, client.parameters, data, round_number)
        private = self.private.keys()
        leaks = sorted(
            (sent.keys() & private) | (sent.keys() - self.shared.keys() - received.keys())
        )
        if leaks:
            raise TacitError(
                f"{type(self.method).__name__} sends {leaks[0]!r}, which is no parameter that the "
                "server shares or sent; an upload holds shared parameters only."
            )
        unsaid = sorted(sent.keys() - self.uploads)
        if unsaid:
            raise TacitError(
                f"{type(self.method).__name__} sends {unsaid[0]!r}, which its `uploads` does not "
                "name; what clients send is declared there, so that it can be disclosed."
            )
        if self.protection is not None and exchange.sends:
            sent = self._claimed(round_number, sent, received, data)
        return Update(kept, Upload(data.history_H, sent))

    def _claimed(
        self, round_number: int, sent: Params, received: Params, data: ClientData
    ) -> Params:
        """An upload that keeps a claim. Everybody sends every parameter, since what is not there
        has no noise; numbers that are not finite would be seen through any noise, so that an
        upload with one is an upload of zeros."""
        named = self.method.sent_in(round_number)
        missing = sorted((self.method.uploads(self.task) if named is None else named) - sent.keys())
        if missing:
            raise TacitError(
                f"{type(self.method).__name__} claims privacy, and a client did not send "
                f"{missing[0]!r}. What some send and others do not tells something of them: let "
                "everybody send zeros there, or let `uploads` and `sent_in` say what is sent."
            )
        if not sent:
            return sent
        if self.clips:
            return self._clipped(sent, received, data)
        finite = torch.stack([value.isfinite().all() for value in sent.values()]).all().double()
        return {name: scaled(value, finite).to(value) for name, value in sent.items()}

    def _clipped(self, sent: Params, received: Params, data: ClientData) -> Params:
        """An upload within its bound, and the bit that goes with it."""
        assert self.protection is not None
        known = (data.history_H, data.real_H, self.task.n_items, self.protection.unit(received))
        factor = row_factor(self.channel, sent, self.method.row_parameters, *known)
        passed = {name: scaled(value, factor).to(value) for name, value in sent.items()}
        if self.protection.estimates:
            like = next(iter(sent.values()))
            passed[BOUND] = self.protection.bit(factor).to(like.dtype)
        return passed

    def absorbed(self, server: Params, user: Tensor, upload: Upload) -> Upload:
        arrived = _without_bound(upload.change)
        sent = self.method.absorb(_without_bound(server), user, arrived)
        same = sent.keys() == arrived.keys() and all(
            value is arrived[name] for name, value in sent.items()
        )
        if self.protection is not None and not same:
            raise TacitError(
                f"{type(self.method).__name__} claims privacy, but its `absorb` changes single "
                "uploads, which a server that sees sums cannot do; let `update` do that."
            )
        return upload if self.protection is not None else Upload(upload.item_R, sent)

    def require_finite(self, sums: Params) -> None:
        """Under a claim, refuse sums with a number that noise does not hide."""
        if self.protection is not None and not all(one.isfinite().all() for one in sums.values()):
            raise TacitError(
                f"{type(self.method).__name__} claims privacy, and its sums are not finite, which "
                "noise does not hide; let what clients send be finite."
            )

    def step(self, server: ServerState, total: Total, round_number: int) -> ServerState:
        # float64: what a server solves or decomposes must not depend on the devices' precision
        before = {name: value.double() for name, value in _without_bound(server.parameters).items()}
        device = next((value.device for value in before.values()), torch.device("cpu"))
        sums = {
            name: torch.from_numpy(np.asarray(value)).to(device)
            for name, value in total.sums.items()
        }
        self.require_finite(sums)
        bits = sums.pop(BOUND, None)
        after = self.method.step(before, sums, total.clients, round_number)
        if BOUND in self.shared:
            after = {**after, BOUND: server.parameters[BOUND]}
        if bits is not None and self.protection is not None:
            known = (server.parameters[BOUND], float(bits), total.clients)
            after[BOUND] = self.protection.next_bound(*known)
        if self.ranks_unseen:
            if not self.task.content:
                raise TacitError(
                    f"{type(self.method).__name__} makes rows of new items from content, and this "
                    "data has none; encode some."
                )
            after = self.method.complete(after, self.task.content)
        return ServerState({name: after[name].to(old) for name, old in server.parameters.items()})

    @property
    def reads_order(self) -> bool:
        return self.method.reads_order or self.method.recency is not None

    def score(self, received: Params, client: ClientState, data: ClientData) -> Tensor:
        given = _without_bound(received)
        return self.method.score(given, client.parameters, self.weighed(given, client, data))

    def weighed(self, received: Params, client: ClientState, data: ClientData) -> ClientData:
        """What a client ranks from: its history, with recent items weighing more where asked."""
        if self.method.recency is None:
            return data
        return replace(data, real_H=self._weights(self.method.recency, received, client, data))

    def _weights(
        self, recency: Recency, received: Params, client: ClientState, data: ClientData
    ) -> Tensor:
        """How much the items of one history count when its client ranks."""
        assert data.order_H is not None
        if not recency.per_user:
            return recency.of_order(data.order_H, data.real_H)

        def score(weight_H: Tensor) -> Tensor:
            tried = replace(data, real_H=weight_H)
            return self.method.score(received, client.parameters, tried)

        weight_GKH = recency.trials(data.order_H, data.real_H)
        score_GKI = vmap(vmap(score))(weight_GKH)
        return recency.own(score_GKI, data.history_H, data.order_H, data.real_H)

    def disclosure(self, sample: Callable[[], Sample]) -> Disclosure:
        """All that the method declares to send, whether or not one client sent it in one round."""
        method, change = self.method, sample().update.upload.change
        noises = [link.noise for link in self.channel]
        # noise on each upload fills rows that were zero, and hides what they would tell
        hidden = any(noise is not None and noise.on == "upload" for noise in noises)
        sent = tuple(
            Sent(
                name,
                self._numbers(name, change),
                name in (method.row_parameters | method.shows_history) and not hidden,
                name in method.sends_private,
            )
            for name in sorted(self.uploads)
        )
        own = () if hidden else method.interpretation()
        told = (*own, *(link.interpretation() for link in self.channel))
        return Disclosure(sent, method.reads, interpretation=told) if sent else Disclosure()

    def traffic(
        self, sample: Callable[[], Sample], participants: Sequence[int], width: int
    ) -> Traffic:
        """From what `broadcast` and `update` really return, in rounds that send. Rows count as
        whole tables: which rows are there would tell the history."""
        one = sample()
        change = one.update.upload.change
        down = width * sum(self._count(*came) for came in one.received.items())
        kept = width * sum(self._count(*own) for own in one.client.parameters.items())

        def numbers(names: frozenset[str]) -> int:
            return sum(self._numbers(name, change) for name in names)

        sending = [n for n in range(1, len(participants) + 1) if self.sends(n)]
        sent = {n: self.method.sent_in(n) for n in sending}
        named = {n: frozenset(change) if names is None else names for n, names in sent.items()}
        exchanges = sum(participants[n - 1] for n in sending)
        ever = frozenset[str]().union(*named.values()) if named else frozenset(change)
        up = width * numbers(ever)
        all_up = width * sum(participants[n - 1] * numbers(named[n]) for n in sending)
        return Traffic(up, down, exchanges, all_up + exchanges * down, down + kept)

    def _numbers(self, name: str, change: Params) -> int:
        """How many numbers an uploaded parameter has, as it was sent or else as it is declared."""
        return self._count(name, change[name]) if name in change else self.shared[name].count

    def _count(self, name: str, value: Tensor) -> int:
        return math.prod(self._shape(name, value))

    def _shape(self, name: str, value: Tensor) -> tuple[int, ...]:
        """Of a whole table, where rows of a history were sent."""
        if name in self.method.row_parameters:
            return (self.task.n_items, *value.shape[1:])
        return tuple(value.shape)

    @property
    def third_party(self) -> frozenset[str]:
        return self.method.third_party

    def uploaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> dict[str, Parcel]:
        if not exchange.sends:
            return {}
        change = sample().update.upload.change
        names = change.keys() if exchange.parameters is None else exchange.parameters
        declared = {name: init.shape for name, init in self.shared.items()}
        shapes = declared | {name: self._shape(name, value) for name, value in change.items()}
        return {name: Parcel.of(shapes[name], width) for name in sorted(self.uploads & names)}

    def downloaded(
        self, exchange: Exchange, sample: Callable[[], Sample], width: int
    ) -> dict[str, Parcel]:
        if not exchange.sends:
            return {}
        came = sorted(sample().received.items())
        return {name: Parcel.of(tuple(value.shape), width) for name, value in came}


def _without_bound(parameters: Params) -> Params:
    """What a method knows of: an estimated bound is the claim's, and not its own."""
    if BOUND not in parameters:
        return parameters
    return {name: value for name, value in parameters.items() if name != BOUND}
