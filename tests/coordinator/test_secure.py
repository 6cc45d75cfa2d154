"""Secure sums over the transport: drop-outs, what a server sees, and epsilon on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import tacit.coordinator.secure as secure_module
from tacit.coordinator.memory import Faults, NodeDownError
from tacit.coordinator.rules import Rules
from tacit.coordinator.secure import (
    OpenedSum,
    SecureSettings,
    skellam_guarantee,
    sum_plan,
)
from tacit.core.algorithm import Exchange
from tacit.core.types import BOUND, Task
from tacit.engines.layout import VectorLayout
from tacit.engines.loop import LoopEngine
from tacit.engines.participation import Participants
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.node.agreement import Agreement
from tacit.node.owner import facts
from tacit.privacy.fixed_point import into_ring
from tacit.privacy.secure_sum.messages import MaskedUpload, from_bytes
from tacit.privacy.secure_sum.plan import SumPlan
from tacit.privacy.skellam import SkellamReleases, composed_epsilon
from tacit.testing.synthetic import ragged, with_content
from tacit.wire.messages import Letter, Request, SumRequest

SMALL = ["backbone.dim=4"]
PEOPLE = 8
DATA = ragged(n_users=PEOPLE, n_items=16)
SECURE = SecureSettings(fewest=5, bound=50.0, bits=64)


class Drops(Faults):
    """Nodes that are gone from one step of a sum on; all that reaches the server is kept."""

    def __init__(self, gone: dict[str, str], rounds: tuple[int, ...] = (1,)) -> None:
        self.gone, self.rounds = gone, rounds
        self.received: list[tuple[str, Letter]] = []
        self.summed: list[str] = []

    def before(self, name: str, request: Request) -> None:
        if isinstance(request, SumRequest) and request.moment.round_number in self.rounds:
            steps = ("keys", "shares", "mask", "unmask")
            since = self.gone.get(name)
            if since is not None and steps.index(request.step) >= steps.index(since):
                raise NodeDownError

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        self.received.append((name, answer))
        return [(name, answer)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[SumPlan, OpenedSum]]:
    """Every sum that is opened, with its plan."""
    found: list[tuple[SumPlan, OpenedSum]] = []
    play_sum = secure_module.play_sum

    def watched(plan: SumPlan, *others: Any) -> OpenedSum:
        one = play_sum(plan, *others)
        found.append((plan, one))
        return one

    monkeypatch.setattr(secure_module, "play_sum", watched)
    return found


def plain_vectors(small: Any) -> dict[str, np.ndarray]:
    """What each person alone adds to the sum of the first round."""
    algorithm, train, seed = small.algorithm, small.train, small.experiment.seed
    engine, layout = LoopEngine(), VectorLayout.of(small.algorithm, Exchange())
    found = {}
    for user, name in enumerate(small.nodes):
        state = engine.start(algorithm, train, seed)
        alone = Participants(np.array([user]), np.ones(1, bool))
        total = engine.play(algorithm, train, state, Exchange(), alone, seed)
        found[name] = layout.flat(total.sums, total.weight)
    return found


@pytest.mark.parametrize("step", ["mask", "unmask"])
def test_a_sum_with_drop_outs_is_exact_and_no_upload_is_seen(
    step: str, deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=1)
    names = list(DATA.interactions.users)
    faults = Drops({names[2]: step, names[6]: step})
    rules = Rules("shop", "first", secure=SECURE, validates=False)
    small = deployment(experiment, DATA, rules=rules, faults=faults)
    server = small.server()
    outcome = server.run()
    [(plan, found)] = opened
    there = [name for name in names if step == "unmask" or name not in faults.gone]
    assert list(found.survivors) == there
    vectors = plain_vectors(small)
    units_N = np.sum([plan.code.encode(vectors[name]) for name in there], axis=0)
    assert np.array_equal(found.value_N, plan.code.decode(units_N))
    assert outcome.given_up == 0
    # what reached the server: messages of the sum and receipts, and vectors only under masks
    assert {letter.kind for _, letter in faults.received} == {"SumAnswer", "Received"}
    assert not any(letter.arrays for _, letter in faults.received)
    masked = 0
    for name, letter in faults.received:
        message = from_bytes(letter.values["body"]) if letter.kind == "SumAnswer" else None  # type: ignore[arg-type]
        if isinstance(message, MaskedUpload):
            masked += 1
            seen_N = np.frombuffer(message.payload, "<u8")
            plain_N = into_ring(plan.code.encode(vectors[name]), 64)
            assert (seen_N == plain_N).mean() < 0.01
    assert masked == len(there)
    reports = np.array([name in there for name in names])
    state = small.simulated([Participants(np.arange(PEOPLE), reports)])
    most = PEOPLE * plan.code.step + 1e-6
    torch.testing.assert_close(
        server.server.shared["items"], state.shared["items"], rtol=0.0, atol=most
    )


def test_too_few_survivors_open_nothing_and_the_run_goes_on(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=2)
    names = list(DATA.interactions.users)
    faults = Drops(dict.fromkeys(names[:4], "mask"))
    rules = Rules("shop", "first", secure=SECURE, validates=False)
    small = deployment(experiment, DATA, rules=rules, faults=faults)
    server = small.server()
    before = {name: value.clone() for name, value in server.server.shared.items()}
    server.advance()
    assert opened == []
    assert torch.equal(server.server.shared["items"], before["items"])
    [record] = [one for one in server.records.read() if one.kind == "exchange"]
    assert "Only 4 of 8 clients sent vectors" in record.given_up
    assert record.answered == ()
    outcome = server.run()
    assert (outcome.given_up, len(opened), outcome.rounds) == (1, 1, 2)


def test_epsilon_is_the_same_on_both_sides(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", plugins=["private:epsilon=8,clip=0.5"], sets=SMALL, rounds=3)
    secure = SecureSettings(fewest=6, colluders=1)
    names = list(DATA.interactions.users)
    faults = Drops({names[1]: "keys"}, rounds=(2,))
    rules = Rules("shop", "first", secure=secure)
    small = deployment(experiment, DATA, rules=rules, faults=faults)
    server = small.server()
    outcome = server.run()
    assert outcome.given_up == 0
    assert outcome.guarantee is not None
    assert outcome.guarantee.mechanism == "skellam"
    assert 7.9 < outcome.guarantee.epsilon <= 8.0 * (1 + 1e-6)
    told = [one.epsilon for one in server.records.read() if one.kind == "exchange"]
    kept = [
        one.epsilon for one in small.nodes[names[0]].ledger.read() if one.kind == "masked upload"
    ]
    assert told == kept
    assert told[-1] == pytest.approx(outcome.guarantee.epsilon, rel=1e-9)
    fewer = small.nodes[names[1]].ledger.read()
    assert [one.releases for one in fewer if one.kind == "masked upload"] == [1, 2]
    assert not any(one.kind == "validation" for one in server.records.read())


UNCOVERED = ["private:epsilon=8,clip=0.5,selection=uncovered"]
CHOSEN = [*SMALL, "protocol.select=best"]


def by_hand(parts: list[tuple[SumPlan, int]], delta: float) -> float:
    """Epsilon of sums of several plans, from the formulas of the docstring of
    `tacit.privacy.skellam` and nothing else of it."""
    best = np.inf
    for order in [*range(2, 256), *(round(256 * 2 ** (k / 8)) for k in range(97))]:
        total = 0.0
        for plan, count in parts:
            v = (plan.promised_noise / plan.code.step) ** 2
            d1, d2 = plan.code.l1, plan.code.l2
            near = ((2 * order - 1) * d2**2 + 6 * d1) / (4 * v**2)
            total += count * (order * d2**2 / (2 * v) + min(near, 3 * d1 / (2 * v)))
        gain = np.log(1 - 1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
        best = min(best, total + gain)
    return float(best)


@pytest.mark.parametrize("name", ["fedease", "fedspectral", "dpals"])
def test_parts_of_one_release_are_accounted_for_as_one_vector(name: str) -> None:
    """A bound on the Euclidean norm of all parts does not bound the sum of their absolute values as
    one part alone would, and Skellam noise looks at both. A coarse step shows it."""
    method = resolve(name, plugins=["private:epsilon=8"]).method
    algorithm = method.algorithm(Task(100_000, 40, releases=3))
    assert algorithm.max_rounds is not None
    settings = SecureSettings(fewest=99_000)
    sums = [
        sum_plan(
            algorithm,
            settings,
            length=VectorLayout.of(algorithm, algorithm.exchanges(number)[0]).length,
            nodes=100_000,
            people=1,
            round_number=number,
        )
        for number in range(1, algorithm.max_rounds + 1)
    ]
    assert len({(one.code.step, one.promised_noise) for one in sums}) == 1
    stated = skellam_guarantee(algorithm, sums[0], releases=3)
    assert stated is not None
    # the dearest that the parts can share the bound: more numbers, more of it
    total = sum(one.code.length for one in sums)
    parts = []
    for one in sums:
        share = one.code.length / total
        l1, l2 = math.sqrt(one.code.length * share) * one.code.l2, math.sqrt(share) * one.code.l2
        parts.append(SkellamReleases((one.promised_noise / one.code.step) ** 2, l1, l2))
    together = composed_epsilon(parts, 1e-5)
    assert 8 - 1e-6 < together <= stated.epsilon + 1e-12
    assert stated.epsilon <= 8.0


def test_hits_under_a_claim_are_in_the_epsilon_of_both_sides(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", plugins=UNCOVERED, sets=CHOSEN, rounds=3)
    rules = Rules("shop", "first", secure=SecureSettings(fewest=6, colluders=1))
    small = deployment(experiment, DATA, rules=rules)
    server = small.server()
    outcome = server.run()
    uploads, hits = opened[0][0], opened[1][0]
    numbers = 4 * DATA.interactions.n_items
    assert (uploads.code.length, hits.code.length, len(opened)) == (numbers, 5, 6)
    assert hits.promised_noise > 0.0
    # one upload, then its hits, then the next: what is told after each is composed by hand
    played = [(1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]
    wanted = [by_hand([(uploads, u), (hits, h)], 1e-5) for u, h in played]
    told = [one for one in server.records.read() if one.kind in ("exchange", "validation")]
    assert [one.kind for one in told] == ["exchange", "validation"] * 3
    assert [one.epsilon for one in told] == pytest.approx(wanted, rel=1e-9)
    for node in small.nodes.values():
        kept = node.ledger.read()
        assert [one.kind for one in kept] == ["masked upload", "masked hits"] * 3
        assert [one.epsilon for one in kept] == [one.epsilon for one in told]
        assert facts(node)["epsilon"] == {"first": outcome.epsilon}
    assert outcome.epsilon == told[-1].epsilon
    assert outcome.guarantee is not None
    # the promise holds for the test part as well, which may be ranked once at the end
    all_of_it = by_hand([(uploads, 3), (hits, 4)], 1e-5)
    assert outcome.epsilon < outcome.guarantee.epsilon == pytest.approx(all_of_it, rel=1e-9)
    assert 8.5 < outcome.guarantee.epsilon < 16.0  # more than was asked for uploads alone
    assert outcome.guarantee.releases == 7
    again = small.server()  # what was spent is not forgotten
    assert again.spent == outcome.epsilon


def test_an_owner_does_not_tell_hits_beyond_the_epsilon_that_was_agreed_to(
    deployment: Callable[..., Any],
) -> None:
    """All planned uploads and hits together count, so that uploads go on when hits do not."""
    experiment = resolve("fedmf", plugins=UNCOVERED, sets=CHOSEN, rounds=3)
    rules = Rules("shop", "first", secure=SecureSettings(fewest=6, colluders=1))
    small = deployment(experiment, DATA, rules=rules)
    for node in small.nodes.values():
        node.settings = replace(node.settings, agreement=Agreement(most_epsilon=10.0))
        node.settings.write(node.store)
    server = small.server()
    outcome = server.run()
    told = [one for one in server.records.read() if one.kind == "validation"]
    assert [bool(one.answered) for one in told] == [True, False, False]
    assert told[1].declined == {"not agreed": PEOPLE}
    assert outcome.given_up == 0
    assert outcome.epsilon is not None
    assert 8.0 < outcome.epsilon <= 10.0
    [last] = {node.ledger.read()[-1].epsilon for node in small.nodes.values()}
    assert last == outcome.epsilon


def test_noise_of_a_claim_lies_on_the_sum(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", plugins=["private:epsilon=1,clip=0.5"], sets=SMALL, rounds=1)
    rules = Rules("shop", "first", secure=SecureSettings(fewest=8), validates=False)
    small = deployment(experiment, DATA, rules=rules)
    server = small.server()
    server.run()
    [(plan, found)] = opened
    assert plan.promised_noise > 0.0
    # eight bounded uploads add at most 0.41 to a number in the mean square, which is small beside
    # the noise; its own deviation over 96 numbers is known to 7 %
    assert plan.promised_noise > 1.5
    assert found.value_N.std() == pytest.approx(plan.promised_noise, rel=0.35)


def test_hits_are_added_up_under_masks(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=1)
    faults = Drops({})
    rules = Rules("shop", "first", secure=SECURE)
    small = deployment(experiment, DATA, rules=rules, faults=faults)
    server = small.server()
    server.run()
    [told] = [one for one in server.records.read() if one.kind == "validation"]
    assert told.people == PEOPLE
    assert not any(letter.kind == "Ranked" for _, letter in faults.received)
    assert told.metrics == pytest.approx(simulated_metrics(small, "valid"), abs=1e-6)
    # the test part is ranked once, at the end, and under masks as well
    found, wanted = server.test_metrics(), simulated_metrics(small, "test")
    assert found == pytest.approx(wanted, abs=1e-6)
    assert wanted != simulated_metrics(small, "valid")
    told = server.records.read()[-1]
    assert (told.kind, told.exchange, told.people) == ("test", 2, PEOPLE)
    assert not any(letter.kind == "Ranked" for _, letter in faults.received)
    assert not (small.folder / "server" / "sum").exists()
    assert server.test_metrics() == {}  # nodes tell it once
    assert server.records.read()[-1].declined == {"stale": PEOPLE}


def test_the_test_part_is_in_the_epsilon(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    rules = Rules("shop", "first", secure=SecureSettings(fewest=6, colluders=1))
    looks = deployment(
        resolve("fedmf", plugins=UNCOVERED, sets=CHOSEN, rounds=1), DATA, rules=rules
    )
    server = looks.server()
    before = server.run().epsilon
    server.test_metrics()
    assert before is not None
    (uploads, _), (hits, _), _ = opened
    assert before < by_hand([(uploads, 1), (hits, 2)], 1e-5) == pytest.approx(server.spent)
    [kept] = {node.ledger.read()[-1].epsilon for node in looks.nodes.values()}
    assert kept == server.spent
    promised = server.planned.guarantee
    assert promised is not None
    assert promised.epsilon == pytest.approx(server.spent, rel=1e-9)


def test_hits_in_the_open_are_no_part_of_a_claim(deployment: Callable[..., Any]) -> None:
    """They would tell the rank of a held-out item as it is, whatever lies on uploads."""
    claim = ["private:epsilon=8,clip=0.5,view=local,selection=uncovered"]
    experiment = resolve("fedmf", plugins=claim, sets=CHOSEN, rounds=1)
    with pytest.raises(TacitError, match="hits that are told in the open have none"):
        deployment(experiment, DATA, rules=Rules("shop", "first")).server()


def test_nobody_ranks_where_that_was_promised(deployment: Callable[..., Any]) -> None:
    plugins = ["private:epsilon=8,clip=0.5"]
    rules = Rules("shop", "first", secure=SecureSettings(fewest=6, colluders=1))
    small = deployment(resolve("fedmf", plugins=plugins, sets=SMALL, rounds=1), DATA, rules=rules)
    server = small.server()
    server.run()
    with pytest.raises(TacitError, match="promises that nobody looks at hits"):
        server.test_metrics()


def simulated_metrics(small: Any, part: str) -> dict[str, float]:
    """Metrics of one part, simulated."""
    from tacit.data.split import split_dataset
    from tacit.engines.select import scorer_of
    from tacit.evaluation.metrics import metric
    from tacit.evaluation.ranking import rank

    split = split_dataset(small.dataset, small.experiment.protocol)
    everyone = Participants(np.arange(PEOPLE), np.ones(PEOPLE, bool))
    state = small.simulated([everyone])
    found = rank(scorer_of(small.algorithm, small.train, state, 0), getattr(split, part))
    return {
        f"{kind}:{name}": metric(ranks, name)
        for kind, ranks in (("full", found.full), ("sampled", found.sampled))
        for name in ("HR@10", "NDCG@10")
    }


class KilledError(BaseException):
    pass


class KillsServer(Drops):
    def __init__(self, every: int) -> None:
        super().__init__({})
        self.every, self.count = every, 0

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        self.count += 1
        if self.count % self.every == 0:
            raise KilledError
        return super().after(name, request, answer)


def test_a_server_killed_within_a_sum_goes_on_with_the_same_masks(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=1)
    faults = KillsServer(every=9)  # a step has 8 answers
    rules = Rules("shop", "first", secure=SECURE, validates=False)
    small = deployment(experiment, DATA, rules=rules, faults=faults)
    for _ in range(20):
        try:
            server = small.server()
            outcome = server.run()
            break
        except KilledError:
            continue
    assert faults.count > 27
    [(plan, found)] = opened
    units_N = np.sum([plan.code.encode(one) for one in plain_vectors(small).values()], axis=0)
    assert np.array_equal(found.value_N, plan.code.decode(units_N))
    assert outcome.given_up == 0
    assert not (small.folder / "server" / "sum").exists()


def test_a_promise_about_sums_needs_secure_sums(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", plugins=["private:epsilon=8,clip=0.5"], sets=SMALL, rounds=1)
    small = deployment(experiment, DATA)
    with pytest.raises(TacitError, match="this deployment has no secure sums"):
        small.server()


def test_a_sum_without_a_bound_is_refused(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedmf", sets=SMALL, rounds=1)
    small = deployment(experiment, DATA, rules=Rules("shop", "first", secure=SecureSettings(5)))
    with pytest.raises(TacitError, match="Secure sums need a bound on uploads"):
        small.server().run()


# Other shapes of a sum


def test_an_estimated_bound_is_the_same_on_both_sides(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", plugins=["private:epsilon=50"], sets=SMALL, rounds=2)
    rules = Rules("shop", "first", secure=SecureSettings(fewest=7, bits=64), validates=False)
    small = deployment(experiment, DATA, rules=rules)
    server = small.server()
    assert server.run().given_up == 0
    assert len(opened) == 2
    assert float(server.server.shared[BOUND][1]) == 2.0  # estimated twice
    claim = server.algorithm.protection
    assert claim is not None
    assert claim.estimates
    for plan, _ in opened:  # bounds and noise are in units of the estimate
        assert plan.code.bound == claim.bound
    told = [one.epsilon for one in small.nodes[server.roster.members[0].name].ledger.read()]
    assert told == [one.epsilon for one in server.records.read() if one.kind == "exchange"]


def test_views_of_the_server_are_added_up_under_masks(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve(
        "fcf", plugins=["fedmr"], sets=["backbone.dim=6", "items.width=6"], rounds=1
    )
    secure = SecureSettings(fewest=8, bound=1000.0, bits=64)
    rules = Rules("shop", "first", secure=secure, validates=False)
    small = deployment(experiment, with_content(DATA), rules=rules)
    server = small.server()
    server.run()
    assert len(opened) == 1
    everyone = Participants(np.arange(PEOPLE), np.ones(PEOPLE, bool))
    state = small.simulated([everyone])
    for name, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[name], value, rtol=0.0, atol=1e-5)


def test_weights_by_data_size_are_in_the_sum(deployment: Callable[..., Any]) -> None:
    experiment = resolve("fedavg", sets=SMALL, rounds=1)
    secure = SecureSettings(fewest=8, bound=1000.0, bits=64)
    rules = Rules("shop", "first", secure=secure, validates=False)
    small = deployment(experiment, DATA, rules=rules)
    server = small.server()
    server.run()
    everyone = Participants(np.arange(PEOPLE), np.ones(PEOPLE, bool))
    state = small.simulated([everyone])
    for name, value in state.shared.items():
        torch.testing.assert_close(server.server.shared[name], value, rtol=0.0, atol=1e-5)


def test_a_local_claim_has_its_noise_from_devices_and_none_from_the_server(
    deployment: Callable[..., Any],
) -> None:
    plugins = ["private:epsilon=8,clip=0.5,view=local"]
    experiment = resolve("fedmf", plugins=plugins, sets=SMALL, rounds=2)
    faults = Drops({})
    small = deployment(experiment, DATA, faults=faults)
    server = small.server()
    before = server.server.shared["items"].clone()
    server.advance()
    sent = [letter.arrays["items"] for _, letter in faults.received if letter.kind == "Played"]
    total = np.sum([one.astype(np.float64) for one in sent], axis=0)
    stepped = server.experiment.method.composed.server.sums.step(  # type: ignore[union-attr]
        before.numpy().astype(np.float64), total, float(PEOPLE)
    )
    after = server.server.shared["items"]
    torch.testing.assert_close(after, torch.from_numpy(stepped).to(after), rtol=0.0, atol=1e-5)
    assert np.linalg.norm(sent[0]) > 1.0  # an upload of norm 0.5, and its noise
    server.run()
    told = [one.epsilon for one in server.records.read() if one.kind == "exchange"]
    ledger = small.nodes[server.roster.members[0].name].ledger.read()
    assert told == [one.epsilon for one in ledger if one.kind == "upload"]
    assert server.guarantee is not None
    assert told[-1] == pytest.approx(server.guarantee.epsilon)
    assert server.guarantee.view == "local"


class Mangled(Drops):
    """One node's messages of sums are damaged on their way, in a way that is drawn."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__({})
        self.name, self.random = name, np.random.default_rng(seed)

    def after(self, name: str, request: Request, answer: Letter) -> Iterable[tuple[str, Letter]]:
        if name != self.name or answer.kind != "SumAnswer":
            return [(name, answer)]
        body = bytearray(answer.values["body"])  # type: ignore[arg-type]
        how = self.random.integers(4)
        if how == 0:
            body = body[: int(self.random.integers(len(body)))]
        elif how == 1:
            body[int(self.random.integers(len(body)))] ^= 1 + int(self.random.integers(255))
        elif how == 2:
            body = bytearray(self.random.bytes(int(self.random.integers(200))))
        else:
            body[0] = int(self.random.integers(256)) if body[0] != 1 else 7
        return [(name, Letter(answer.kind, answer.values | {"body": bytes(body)}, {}))]


def test_damaged_messages_of_a_sum_are_refused_and_the_others_are_summed(
    deployment: Callable[..., Any], opened: list[tuple[SumPlan, OpenedSum]]
) -> None:
    experiment = resolve("fedmf", sets=["backbone.dim=2"], rounds=6)
    names = list(DATA.interactions.users)
    rules = Rules("shop", "first", secure=SECURE, validates=False)
    small = deployment(experiment, DATA, rules=rules, faults=Mangled(names[3], seed=1))
    server = small.server()
    assert server.run().given_up == 0
    assert [one.survivors for _, one in opened] == [(*names[:3], *names[4:])] * 6
    assert server.admission.refused == {(names[3], "wrong sum message"): 6}
