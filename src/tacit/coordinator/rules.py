"""How a server plays a run, what the run is about, and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit import streams
from tacit.coordinator.admission import Limits
from tacit.coordinator.robust import RobustRule
from tacit.coordinator.secure import SecureSettings
from tacit.core.algorithm import Algorithm
from tacit.data.dataset import Modalities
from tacit.data.views import Lists, TrainView
from tacit.errors import TacitError, argument
from tacit.experiment.spec import Experiment
from tacit.node.play import LOCAL_SPLITS
from tacit.privacy.guarantee import Guarantee
from tacit.wire.messages import CatalogueUpdate


@dataclass(frozen=True)
class Rules:
    """How a server plays: names, waiting, and what it accepts.

    An exchange counts with answers of at least `quorum` of those invited, and closes at once with
    those of `enough`. `deadline` is in seconds, for every request. With `validates` nodes are asked
    for sums of hits where the experiment selects a round by them; a claim that promises not to look
    overrides that. `allow_tables` plays methods whose server reads single tables of people, which
    nothing protects; the owner of each node has to agree as well. With `through_aggregators` every
    member of the roster is an aggregator (`tree.py`), and secure sums are opened below them.
    """

    deployment: str
    run: str
    quorum: float = 0.5
    enough: float = 1.0
    deadline: float = 60.0
    rule: RobustRule = RobustRule()
    secure: SecureSettings | None = None
    limits: Limits = Limits()
    validates: bool = True
    allow_tables: bool = False
    through_aggregators: bool = False

    @property
    def masks(self) -> bool:
        """Whether the nodes of this server send masked vectors."""
        return self.secure is not None and not self.through_aggregators

    @property
    def over_uploads(self) -> RobustRule:
        """How answers become one sum. Those of aggregators are added up as they are: a rule looks
        at single nodes, and works in each branch."""
        return RobustRule() if self.through_aggregators else self.rule

    def check(self) -> None:
        if not self.deployment or not self.run:
            raise TacitError("A deployment and its run need names.")
        for name, value in (("quorum", self.quorum), ("enough", self.enough)):
            if not 0.0 < value <= 1.0:
                raise TacitError(f"{name} is {value}; it must be above 0 and at most 1.")
        if self.enough < self.quorum:
            raise TacitError(
                f"enough is {self.enough} and quorum {self.quorum}; an exchange cannot close with "
                "fewer answers than it needs."
            )
        if not 0.0 < self.deadline < math.inf:
            raise TacitError(f"deadline is {self.deadline}; give seconds above 0.")
        self.rule.check(secure=self.secure is not None)


@dataclass(frozen=True, eq=False)
class Offer:
    """What a run is about: the catalogue that nodes get, and what the server knows of the items."""

    catalogue: CatalogueUpdate
    content: Modalities = field(default_factory=Modalities)

    @property
    def n_items(self) -> int:
        return len(self.catalogue.ids)

    @property
    def item_key_I(self) -> np.ndarray:
        return np.array([streams.name_of(one) for one in self.catalogue.ids], dtype=np.uint64)

    def view(self) -> TrainView:
        """The catalogue without anybody's history."""
        nobody = Lists.empty(0)
        keys = np.zeros(0, dtype=np.uint64)
        return TrainView(
            self.n_items, nobody, keys, nobody, self.content, item_key_I=self.item_key_I
        )


@dataclass(frozen=True)
class Outcome:
    """What a finished run tells. `guarantee` was promised before it began, and `epsilon` is what is
    spent by those who were asked most, sums of hits included; None without a claim."""

    rounds: int
    selected_round: int
    metrics: Mapping[str, float]
    given_up: int
    guarantee: Guarantee | None
    epsilon: float | None = None


def require_deployable(experiment: Experiment, algorithm: Algorithm, rules: Rules) -> None:
    """Refuse, before anything is sent, a method that this deployment cannot play or whose promise
    it would not keep."""
    name = experiment.label
    if algorithm.central is not None:
        raise TacitError(f"{name} wants whole histories, which stay on devices; take another.")
    if algorithm.reads_tables is not None:
        _require_tables(name, algorithm, rules)
    custom = algorithm.custom
    if custom is not None and custom.method.reads == "each":
        raise TacitError(
            f"The server of {name} reads every single upload; take a method whose server needs "
            "sums."
        )
    protocol = experiment.protocol
    if protocol.split.kind not in LOCAL_SPLITS or protocol.negatives_exclude == "unseen":
        what = "draw of negatives" if protocol.split.kind in LOCAL_SPLITS else "split"
        raise TacitError(
            f"The {what} of {name} looks at all people together, which no device can; use "
            f"{argument('split', 'time')} and the protocol clean."
        )
    noises = {link.noise.on for link in algorithm.channel if link.noise is not None}
    if len(noises) > 1:
        raise TacitError(f"{name} adds noise to uploads and to sums; leave one of them out.")
    if "upload" in noises and rules.secure is not None:
        raise TacitError(
            f"Devices of {name} add noise to their own uploads, which secure sums have no room "
            "for; do without secure sums, or claim the view secure_sum."
        )
    claim = algorithm.protection
    if claim is not None and claim.request.view == "secure_sum" and rules.through_aggregators:
        raise TacitError(
            f"{name} promises what one secure sum of everybody keeps, and aggregators open one for "
            "each crowd; do without them, or claim the local view."
        )
    if claim is not None and claim.request.selection != "last" and rules.secure is None:
        raise TacitError(
            f"{name} promises an epsilon, and hits that are told in the open have none; leave "
            "selection=uncovered out, or claim the view secure_sum and add up under secure sums."
        )
    if claim is not None and claim.request.view == "secure_sum" and rules.secure is None:
        raise TacitError(
            f"{name} promises that only sums are seen, and this deployment has no secure sums; "
            "give it some, or claim the local view."
        )


def _require_tables(name: str, algorithm: Algorithm, rules: Rules) -> None:
    if not rules.allow_tables:
        raise TacitError(
            f"The server of {name} reads single tables of people, which nothing protects; take a "
            "method whose server needs sums, or allow it (allow_tables)."
        )
    if rules.secure is not None or algorithm.protection is not None:
        raise TacitError(
            f"The server of {name} reads single tables of people, which secure sums and claims of "
            "privacy rule out; do without them."
        )
    if rules.through_aggregators:
        raise TacitError(
            f"The server of {name} reads single tables of people, and aggregators send sums; do "
            "without them."
        )
    if rules.rule.name != "mean":
        raise TacitError(
            f"The rule {rules.rule.name} is about sums, and the server of {name} reads single "
            "tables; take the mean."
        )


def hit_names(experiment: Experiment) -> tuple[str, ...]:
    """The metrics whose sums nodes tell, in their order.

    >>> from tacit.experiment.resolve import resolve
    >>> hit_names(resolve("fedmf"))
    ('full:HR@10', 'full:NDCG@10', 'sampled:HR@10', 'sampled:NDCG@10')
    """
    protocol = experiment.protocol
    told = {f"{ranked}:{name}" for ranked in ("full", "sampled") for name in ("HR@10", "NDCG@10")}
    return tuple(sorted(told | {f"{protocol.select_on}:{protocol.select_metric}"}))
