"""From names to experiments: protocols, presets, splits, single settings, and honest names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tacit.central.pairs import PairModel
from tacit.core.method import Method
from tacit.core.optim import Adam, Sgd
from tacit.data.protocol import CLEAN, FEDRKG, PFEDREC, Protocol, SplitRule
from tacit.data.sampling import Sampling
from tacit.errors import TacitError
from tacit.experiment.plugins import plugin_notes
from tacit.experiment.resolve import apply_set, override, protocol_named, resolve, split_named
from tacit.experiment.spec import Experiment
from tacit.methods import METHODS, Ease, fedmf, pfedrec
from tacit.parts.channel import Clip, Dense


def refusal(*names: str, **arguments: object) -> str:
    with pytest.raises(TacitError) as caught:
        resolve(*names, **arguments)  # type: ignore[arg-type]
    return str(caught.value)


def test_a_name_alone_is_the_papers_method_under_the_clean_protocol() -> None:
    experiment = resolve("fedmf")
    assert experiment == Experiment("fedmf", fedmf(), rounds=100)
    assert experiment.protocol == CLEAN
    assert experiment.data.name == "planted"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_resolves_under_every_protocol_and_preset(name: str) -> None:
    for protocol in ("clean", "paper", "pfedrec", "fedrkg"):
        for preset in METHODS[name].presets:
            found = resolve(name, protocol=protocol, preset=preset)
            assert found.rounds == METHODS[name].rounds


@pytest.mark.parametrize(
    ("method", "protocol"),
    [("pfedrec", "pfedrec"), ("fedmf", "pfedrec"), ("ease", "clean"), ("popularity", "clean")],
)
def test_paper_is_the_protocol_of_the_methods_paper(method: str, protocol: str) -> None:
    assert resolve(method, protocol="paper").protocol.name == protocol


def test_plugins_without_a_paper_leave_the_protocol_alone() -> None:
    assert protocol_named("paper", "fedmf", ["clip:bound=1"]) == PFEDREC
    assert protocol_named("fedrkg", "fedmf", []) == FEDRKG


def test_presets() -> None:
    assert resolve("pfedrec", preset="released").method == pfedrec(loss_on="probabilities")
    assert refusal("pfedrec", preset="releesed") == (
        "No preset 'releesed' here; did you mean 'released'? Known: fusion, paper, released, tuned."
    )


@pytest.mark.parametrize("plugin", ["fedmr", "fedvlr"])
def test_pfedrec_has_the_client_of_the_fusion_papers_as_a_preset(plugin: str) -> None:
    fused = resolve("pfedrec", preset="fusion", plugins=[plugin]).method
    assert isinstance(fused, Method)
    assert (fused.backbone.dim, fused.items.width) == (64, 64)  # type: ignore[attr-defined]
    inner = fused.local.inner
    assert inner is not None
    assert (inner.epochs, inner.batch) == (5, 2048)
    assert fused.sampling == Sampling(1, "epoch")
    notes = plugin_notes(resolve("pfedrec", preset="fusion", plugins=[plugin]))
    assert any("ranks with a privately tuned copy" in note and plugin in note for note in notes)


@pytest.mark.parametrize("name", ["mf", "ncf", "neumf"])
def test_central_baselines_have_plain_descent_as_a_preset(name: str) -> None:
    for preset, optimiser in (("paper", Adam(1e-3, lifetime="persistent")), ("sgd", Sgd(0.1))):
        method = resolve(name, preset=preset).method
        assert isinstance(method, PairModel)
        assert method.optimiser == optimiser


def test_unknown_names() -> None:
    assert refusal("pfedrek").startswith("Unknown method 'pfedrek'; did you mean 'pfedrec'?")
    assert refusal("fedmf", protocol="papper").startswith(
        "Unknown protocol 'papper'; did you mean 'paper'?"
    )
    assert refusal("fedmf", split="tiem").startswith("Unknown split 'tiem'; did you mean 'time'?")
    assert refusal("fedmf", engine="fussed").startswith("engine is 'fussed': input should be ")
    assert refusal("fedmf", duplicates="drop").startswith("duplicates is 'drop': input should be ")


def test_splits_by_name_keep_the_other_fields() -> None:
    base = SplitRule(ties="last_row", valid_share=0.2, seed=5)
    by_time = replace(base, kind="global_time", order="time")
    assert split_named("global_time", base) == replace(by_time, held_out="first")
    assert split_named("global_time_all", base) == by_time
    assert split_named("ratio", base) == replace(base, kind="ratio", order="random")
    assert split_named("labels", base).kind == "labels"
    assert resolve("fedmf", split="random").protocol.split.order == "random"


def test_a_source_without_times_is_split_without_them() -> None:
    assert resolve("fedmf", data="filmtrust").protocol.split.order == "random"
    paper = resolve("fedmf", data="filmtrust", protocol="paper")
    assert paper.protocol.split.order == "item_appearance"
    said = resolve("fedmf", data="filmtrust", split="row")
    assert said.protocol.split.order == "row"
    assert resolve("fedmf", data="ml-100k").protocol.split.order == "time"


def test_settings_begin_at_the_experiment_or_at_the_method() -> None:
    found = resolve(
        "fedmf",
        sets=[
            "evaluate_every=5",
            "participation.dropout=0.25",
            "protocol.sampled=49",
            "method.backbone.dim=8",
            " local.items.rate = 0.5 ",
            "data.min_user=3",
        ],
    )
    assert found.evaluate_every == 5
    assert found.participation.dropout == 0.25
    assert found.protocol.sampled == 49
    assert isinstance(found.method, Method)
    assert found.method.backbone.dim == 8
    assert found.method.local.items.rate == 0.5
    assert found.data.min_user == 3
    assert resolve("ease", sets=["ridges=[3]"]).method == Ease(ridges=(3.0,))


def test_later_settings_win() -> None:
    assert resolve("fedmf", seed=1, sets=["seed=2", "seed=3"]).seed == 3


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("rounds", "Cannot read sets=['rounds']; write sets=['part.field=value']."),
        ("raunds=3", "Cannot set 'raunds'; did you mean 'rounds'?"),
        ("local.itmes.rate=3", "Cannot set 'local.itmes.rate': there is no 'itmes' in it; did you"),
        ("name=other", "Cannot set 'name'; "),
        ("plugins=[]", "Cannot set 'plugins'; "),
        ("method=pfedrec", "method is 'pfedrec', but it must be a part: set one of its fields."),
        ("participation={ratoi=0.5}", "Unknown key 'participation.ratoi'; did you mean 'ratio'?"),
        ("rounds=0", "rounds is 0; it must be at least 1."),
        ("evaluate_every=0", "evaluate_every is 0; it must be at least 1."),
        ("seed=-1", "seed is -1; it must lie between 0 and 2147483647."),
        ("seed=2147483648", "seed is 2147483648; it must lie between 0 and 2147483647."),
        ("participation.ratio=1.5", "participation.ratio is 1.5; it must be above 0"),
        ("backbone.dim=0", "backbone.dim is 0; it must be at least 1."),
        ("local.items.rate=nan", "local.items has a rate of nan"),
        ("protocol.select_metric=HT@10", "Unknown metric 'HT' in 'HT@10'; "),
        ("protocol.select_metric=HR", "Metric 'HR' needs a whole cut-off"),
        ("protocol.patience=0", "protocol.patience is 0; it must be at least 1, or left out."),
    ],
)
def test_settings_that_cannot_be(setting: str, sentence: str) -> None:
    assert refusal("fedmf", sets=[setting]).startswith(sentence)


def test_a_bound_given_in_python_is_checked_too() -> None:
    method = replace(fedmf(), channel=(Dense(), Clip(bound=-1)))
    with pytest.raises(TacitError, match="bound of Clip in the channel is -1;"):
        replace(resolve("fedmf"), method=method).check()


def test_a_path_that_is_no_text_cannot_be_recorded() -> None:
    """What a file name that is not UTF-8 looks like in Python."""
    assert refusal("fedmf", data="pl\udcffys.csv").startswith(
        "The data's name 'pl\\udcffys.csv' is"
    )


def test_a_central_method_needs_a_setting_to_try() -> None:
    assert refusal("ease", sets=["ridges=[]"]) == ("ridges are (); give at least one, all above 0.")


def test_central_methods_take_no_plugins() -> None:
    said = refusal("ease", plugins=["clip"])
    assert said == "ease has no parts to plug into; drop plugins=['clip']."


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        ("clip:bound=-1", "bound of Clip in the channel is -1.0; it must be finite and not "),
        ("clip:bound=inf", "bound of Clip in the channel is inf"),
        ("laplace:scale=nan", "scale of Laplace in the channel is nan"),
    ],
)
def test_channels_that_cannot_be(plugin: str, sentence: str) -> None:
    assert refusal("fedmf", plugins=[plugin]).startswith(sentence)


LEAKS = (
    "protocol.negatives_exclude=all",
    "protocol.duplicates=keep",
    "protocol.test_mask=train",
)


@pytest.mark.parametrize("setting", LEAKS)
def test_a_clean_protocol_that_was_changed_is_called_custom(setting: str) -> None:
    found = resolve("fedmf", sets=[setting])
    assert found.protocol.name == "custom"
    assert not found.protocol.is_clean


def test_keeping_duplicates_by_flag_is_not_clean_either() -> None:
    assert resolve("fedmf", duplicates="keep").protocol.name == "custom"
    assert resolve("fedmf", duplicates="earliest").protocol == CLEAN


@pytest.mark.parametrize(
    "setting",
    ["protocol.sampled=9", "protocol.patience=5", "protocol.split.order=random"],
)
def test_what_does_not_leak_stays_clean(setting: str) -> None:
    assert resolve("fedmf", sets=[setting]).protocol.is_clean


@pytest.mark.parametrize("setting", LEAKS)
def test_leaks_may_not_be_named_clean(setting: str) -> None:
    leaky = apply_set(resolve("fedmf"), setting)
    assert leaky.protocol.is_clean
    with pytest.raises(TacitError) as caught:
        leaky.check()
    assert str(caught.value) == (
        "This protocol is named 'clean' but hides held-out items, keeps duplicates, shuffles "
        "histories or masks less; "
        "give it another name."
    )
    renamed = apply_set(apply_set(resolve("fedmf", protocol="paper"), setting), "seed=3")
    renamed.check()
    with pytest.raises(TacitError):
        replace(renamed, protocol=replace(PFEDREC, name="clean")).check()


def test_a_label_names_method_and_plugins() -> None:
    assert resolve("fedmf").label == "fedmf"
    assert resolve("fedmf", plugins=["clip", "gaussian"]).label == "fedmf + clip + gaussian"


def test_flags_on_top_of_a_saved_experiment() -> None:
    saved = resolve("pfedrec", preset="released", rounds=9, seed=4, plugins=["clip:bound=1"])
    found = override(
        saved, rounds=3, data="a file", participation=0.5, plugins=["laplace"], split="row"
    )
    assert found.rounds == 3
    assert found.seed == 4
    assert found.preset == "released"
    assert found.data.name == "a file"
    assert found.participation.ratio == 0.5
    assert found.plugins == ("clip:bound=1", "laplace")
    assert isinstance(found.method, Method)
    assert len(found.method.channel) == 3
    assert found.protocol.split.order == "row"
    assert override(saved) == saved
    assert override(saved, method="pfedrec", preset="released") == saved


def test_a_saved_method_cannot_become_another() -> None:
    with pytest.raises(TacitError, match="spells the method 'fedmf' out in full"):
        override(resolve("fedmf"), method="pfedrec")
    with pytest.raises(TacitError, match="spells the preset 'paper' out in full"):
        override(resolve("pfedrec"), preset="released")


def test_overriding_into_a_leak_is_named_truly() -> None:
    assert override(resolve("fedmf"), duplicates="keep").protocol.name == "custom"
    assert override(resolve("fedmf"), protocol="paper").protocol == PFEDREC
    assert isinstance(override(resolve("fedmf"), protocol="clean").protocol, Protocol)
