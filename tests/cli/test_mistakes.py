"""What a person can get wrong: exit code 2, one line with the way out, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

TRAIN = ["train", "fedmf"]

MISTAKES = {
    "method": (["train", "fedmff"], "Unknown method 'fedmff'; did you mean 'fedmf'?"),
    "no method": (["train"], "Which method?"),
    "command": (["trian", "fedmf"], "Did you mean 'train'?"),
    "option": ([*TRAIN, "--round", "3"], "No such option: --round (Possible options:"),
    "option value": ([*TRAIN, "--rounds", "many"], "Invalid value for '--rounds'"),
    "option without value": ([*TRAIN, "--rounds"], "'--rounds' requires an argument"),
    "dataset": ([*TRAIN, "--data", "plantd"], "did you mean 'planted'?"),
    "plug-in": ([*TRAIN, "--with", "clp"], "Unknown plug-in 'clp'; did you mean 'clip'?"),
    "plug-in key": ([*TRAIN, "--with", "clip:bond=1"], "has no 'bond'; did you mean 'bound'?"),
    "plug-in value": ([*TRAIN, "--with", "clip:bound=far"], "clip.bound is 'far'"),
    "plug-in spelling": ([*TRAIN, "--with", "clip:1"], "write NAME:key=value"),
    "plug-in of a control": (["train", "ease", "--with", "clip"], "no parts to plug into"),
    "two plug-ins of which one undoes the other": (
        [*TRAIN, "--with", "dual_personalised", "--with", "fedmr"],
        "which fedmr takes away; drop --with dual_personalised, or drop --with fedmr.",
    ),
    "NaN bound": ([*TRAIN, "--with", "clip:bound=nan"], "bound of Clip in the channel is nan"),
    "negative noise": ([*TRAIN, "--with", "laplace:scale=-1"], "scale of Laplace"),
    "preset": (["train", "pfedrec", "--preset", "relased"], "did you mean 'released'?"),
    "protocol": ([*TRAIN, "--protocol", "cleen"], "did you mean 'clean'?"),
    "split": ([*TRAIN, "--split", "randon"], "did you mean 'random'?"),
    "duplicates": ([*TRAIN, "--duplicates", "drop"], "duplicates is 'drop'"),
    "engine": ([*TRAIN, "--engine", "warp"], "engine is 'warp'"),
    "engine that cannot": (["train", "fedrap", "--engine", "fused"], "adds to the loss or"),
    "device": ([*TRAIN, "--device", "tpu"], "Unknown device 'tpu'"),
    "set key": ([*TRAIN, "--set", "local.item.rate=1"], "did you mean 'items'?"),
    "set spelling": ([*TRAIN, "--set", "local.items.rate"], "write --set part.field=value"),
    "set value": ([*TRAIN, "--set", "local.batch=big"], "local.batch is 'big'"),
    "NaN rate": ([*TRAIN, "--set", "local.items.rate=nan"], "a rate of nan"),
    "infinite rate": ([*TRAIN, "--set", "local.model.rate=inf"], "a rate of inf"),
    "nobody takes part": ([*TRAIN, "--participation", "0"], "participation.ratio is 0.0"),
    "NaN takes part": ([*TRAIN, "--participation", "nan"], "participation.ratio is nan"),
    "no rounds": ([*TRAIN, "--rounds", "0"], "rounds is 0; it must be at least 1."),
    "negative seed": ([*TRAIN, "--seed", "-1"], "seed is -1"),
    "no threads": ([*TRAIN, "--threads", "0"], "Invalid value for '--threads'"),
    "columns": ([*TRAIN, "--columns", "user"], "write each role once"),
    "columns twice": ([*TRAIN, "--columns", "user=a,user=b"], "write each role once"),
    "config": ([*TRAIN, "--config", "none.toml"], "No file at 'none.toml'"),
    "no run": (["evaluate", "nothing"], "No run at 'nothing'"),
    "recommend for nobody": (["recommend", "nothing"], "either --user ID or --history FILE"),
    "recommend from nothing": (["recommend", "nothing", "--user", "a"], "No run at 'nothing'"),
    "describe": (["data", "describe", "ml-100"], "did you mean 'ml-100k'?"),
    "describe duplicates": (["data", "describe", "planted", "--duplicates", "x"], "'earliest' or"),
    "manifest": (["data", "get", "ml-100z"], "did you mean 'ml-100k'?"),
    "data command": (["data", "lst"], "Did you mean 'list'?"),
    "compare metric": (["compare", "fedmf", "ease", "--metric", "NDGC@10"], "mean 'NDCG'?"),
    "compare cut-off": (["compare", "fedmf", "ease", "--metric", "NDCG"], "cut-off"),
    "compare seeds": (["compare", "fedmf", "ease", "--seeds", "0"], "seeds is 0"),
    "compare one": (["compare", "fedmf"], "at least two methods"),
    "compare twice": (["compare", "fedmf", "fedmf"], "fedmf is there twice"),
    "compare method": (["compare", "fedmf", "eaze"], "did you mean 'ease'?"),
    "compare against": (["compare", "fedmf", "ease", "--against", "eaze"], "did you mean 'ease'?"),
    "compare folder": (["compare", "fedmf", "runs/x"], "No run at 'runs/x'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(tacit, name, monkeypatch):
    monkeypatch.delenv("TACIT_DATA", raising=False)
    arguments, words = MISTAKES[name]
    said = tacit(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("tacit: ")
    assert said.err.count("\n") == 1
    assert said.err.endswith("\n")
    assert words in said.err
    assert list(Path().iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_where_there_is_none(tacit):
    said = tacit("train", "fedmf", "--device", "cuda")
    assert (said.code, said.err) == (
        2,
        "tacit: There is no CUDA device here; use --device cpu.\n",
    )
    assert list(Path().iterdir()) == []


CONFIGS = {
    "unknown key": ('method = "fedmf"\nround = 3\n', "did you mean 'rounds'?"),
    "wrong kind": ('method = "fedmf"\nrounds = "three"\n', "rounds in"),
    "boolean rounds": ('method = "fedmf"\nrounds = true\n', "rounds in"),
    "plug-ins as text": ('method = "fedmf"\nplugins = "clip"\n', "plugins in"),
    "protocol as number": ('method = "fedmf"\nprotocol = 5\n', "protocol in"),
    "no method": ("rounds = 3\n", "Which method?"),
    "not TOML": ("rounds: 3\n", "is not TOML"),
    "unknown part": ('name = "x"\nrounds = 1\n[method]\npart = "federatd"\n', "'federated'?"),
    "unknown inner key": (
        'name = "x"\nrounds = 1\n[method]\npart = "ease"\nridge = [1.0]\n',
        "Unknown key 'method.ridge'; did you mean 'ridges'?",
    ),
    "incomplete": ('name = "x"\n[method]\npart = "ease"\n', "is incomplete"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_mistake_in_a_config(tacit, name):
    text, words = CONFIGS[name]
    Path("run.toml").write_text(text)
    said = tacit("train", "--config", "run.toml")
    assert said.code == 2
    assert said.err.startswith("tacit: ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert [path.name for path in Path().iterdir()] == ["run.toml"]


def test_a_place_that_cannot_be_written(tacit):
    Path("file").write_text("")
    said = tacit("train", "popularity", "--out", "file/inside")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "'file/inside'" in said.err
