"""Every named method, held to the battery."""

from tacit.data.protocol import PFEDREC
from tacit.evaluation.metrics import metric
from tacit.methods import METHODS, local_only
from tacit.testing import FederatedTests, MethodTests, noise
from tacit.testing.play import play


class TestFedMF(FederatedTests):
    name = "fedmf"


class TestFedNCF(FederatedTests):
    name = "fedncf"
    engine_sets = (*FederatedTests.engine_sets, "backbone.layers=[5, 1]")


class TestPFedRec(FederatedTests):
    name = "pfedrec"


class TestLocalOnly(FederatedTests):
    name = "local_only"
    learns = False


class TestEase(MethodTests):
    name = "ease"


class TestPureSvd(MethodTests):
    name = "pure_svd"


class TestPopularity(MethodTests):
    name = "popularity"
    learns = False


class TestRandom(MethodTests):
    name = "random"
    learns = False


def test_every_method_stands_in_this_file() -> None:
    tested = {
        value.name
        for value in globals().values()
        if isinstance(value, type) and issubclass(value, MethodTests) and hasattr(value, "name")
    }
    assert tested == set(METHODS)


def test_the_leaky_pool_is_detected() -> None:
    """On pure noise a client that never communicates soars as soon as held-out items are hidden
    from its negatives: the noise test would catch that pool."""
    leaky = play(local_only(), noise(), protocol=PFEDREC, rounds=20)
    assert metric(leaky.full, "HR@10") > 0.9
