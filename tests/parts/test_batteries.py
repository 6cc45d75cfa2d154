"""Every kind of part has a battery, and every part that is shipped is held to it.

Rules of synchronisation and links of the channel stand beside their own tests.
"""

from __future__ import annotations

from tacit.core.optim import Adam, Momentum, Sgd
from tacit.parts.backbones import DotProduct, LinearHead, MlpHead, NeuralMf, SharedMlp
from tacit.parts.clusters import ClusterMean
from tacit.parts.contrast import GroupKept
from tacit.parts.graph import GraphMean
from tacit.parts.items import Appended, IdOnly
from tacit.parts.local import Alternate, GradientsOnly, Joint, Reconstruct
from tacit.parts.mixture import Mixture
from tacit.parts.objectives import BinaryCrossEntropy, PairwiseRanking
from tacit.parts.server import Mean, ServerSteps
from tacit.parts.sync import Proximal
from tacit.parts.views import AttentionView, SingleView, SumView, TrueGateView
from tacit.testing import (
    BackboneTests,
    ItemTests,
    LocalTests,
    ObjectiveTests,
    OptimiserTests,
    ServerTests,
)

SLOW = Sgd(0.1, per_item=2.0)


class TestDotProduct(BackboneTests):
    backbone = DotProduct(4)


class TestLinearHead(BackboneTests):
    backbone = LinearHead(4)


class TestLinearHeadWithUser(BackboneTests):
    backbone = LinearHead(4, user_vector=True)


class TestSharedMlp(BackboneTests):
    backbone = SharedMlp(4, (3, 1))


class TestPrivateMlp(BackboneTests):
    backbone = SharedMlp(4, (3, 1), scorer="private")


class TestMlpHead(BackboneTests):
    backbone = MlpHead(4, (3, 1))


class TestNeuralMf(BackboneTests):
    backbone = NeuralMf(4, (3, 2))


class TestIdOnly(ItemTests):
    items = IdOnly()


class TestMixture(ItemTests):
    items = Mixture(width=4, id_width=5, hidden=3)


class TestOtherViews(ItemTests):
    items = Mixture((SingleView("text"), TrueGateView(), AttentionView()), width=4, id_width=5)


class TestViewsFromTheServer(ItemTests):
    items = Mixture(width=4, id_width=5, hidden=3, normalise=True, placement="server")


class TestOneView(ItemTests):
    items = Mixture((SumView(),), ("image",), width=4, id_width=5, missing="zero")


class TestItemRouter(ItemTests):
    items = Mixture(width=4, id_width=5, hidden=3, rule="item", router="shared")


class TestAppended(ItemTests):
    items = Appended()


class TestJoint(LocalTests):
    local = Joint(items=SLOW, epochs=2, batch=16, gradient_clip=0.5)


class TestAlternate(LocalTests):
    local = Alternate(items=SLOW, epochs=2, batch=16)


class TestReconstruct(LocalTests):
    local = Reconstruct(items=SLOW, reconstruct_epochs=2, batch=16)


class TestHeld(LocalTests):
    local = GradientsOnly(Joint(items=SLOW, epochs=2, batch=16))
    server = ServerSteps(SLOW, Adam(0.01))


class TestHeldLast(LocalTests):
    local = GradientsOnly(Alternate(items=SLOW, batch=16), "last_gradient")
    server = ServerSteps(SLOW, Adam(0.01))


class TestCrossEntropy(ObjectiveTests):
    objective = BinaryCrossEntropy()


class TestCrossEntropyOnProbabilities(ObjectiveTests):
    objective = BinaryCrossEntropy("probabilities")


class TestPairwiseRanking(ObjectiveTests):
    objective = PairwiseRanking()


class TestMean(ServerTests):
    server = Mean()


class TestMeanByExamples(ServerTests):
    server = Mean("examples")


class TestServerSteps(ServerTests):
    server = ServerSteps(SLOW, Adam(0.01))
    local = GradientsOnly(Joint(items=SLOW, epochs=2, batch=16))


class TestGraphMean(ServerTests):
    server = GraphMean()
    sync = Proximal(0.5)


class TestClusterMean(ServerTests):
    server = ClusterMean(clusters=3, sample=5)
    sync = GroupKept(strength=0.1)


class TestSgd(OptimiserTests):
    optimiser = Sgd(0.1)


class TestSgdWithDecay(OptimiserTests):
    optimiser = Sgd(0.1, weight_decay=0.01, decay=0.5)


class TestMomentum(OptimiserTests):
    optimiser = Momentum(0.05, mass=0.8, decay=0.9)


class TestMomentumThatLasts(OptimiserTests):
    optimiser = Momentum(0.05, lifetime="persistent")


class TestAdam(OptimiserTests):
    optimiser = Adam(0.05)


class TestAdamThatLasts(OptimiserTests):
    optimiser = Adam(0.05, lifetime="persistent")
