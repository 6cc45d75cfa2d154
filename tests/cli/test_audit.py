"""`tacit audit`: its files, its verdicts, and what it leaves behind when stopped."""

from __future__ import annotations

import json
from pathlib import Path


def test_both_protocols_side_by_side(tacit, small):
    said = tacit("audit", "pfedrec", *small, "--rounds", 6)
    assert said.code == 0
    folder = Path("runs/audit-pfedrec-plays-seed0")
    assert sorted(path.name for path in folder.iterdir()) == ["audit.html", "audit.json"]
    table = json.loads((folder / "audit.json").read_text())
    assert [one["protocol"] for one in table["audits"]] == ["pfedrec", "clean"]
    leaky, clean = table["audits"]
    assert "never-sampled oracle" in leaky["flags"]
    assert "draws of held-out items" in leaky["flags"]
    assert clean["flags"] == []
    assert [len(one["findings"]) for one in table["audits"]] == [10, 10]

    lines = said.out.splitlines()
    for one in table["audits"]:
        assert f"verdict   {one['conclusion']}" in lines
        for finding in one["findings"]:
            assert f"{finding['verdict']:9} {finding['name']}: {finding['says']}" in lines
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert leaky["conclusion"].replace("'", "&#39;") in page
    assert page.count('<span class="tag flag">FLAG</span>') == 2 * len(leaky["flags"])
    assert "<script" not in page
    assert "http" not in page


def test_one_protocol_as_json(tacit, small):
    said = tacit(
        *("audit", "fedmf", *small, "--with", "clip:bound=1", "--rounds", 2),
        *("--protocol", "fedrkg", "--seed", 4, "--json", "--out", "one"),
    )
    table = json.loads(said.out)
    assert said.code == 0
    assert table == json.loads(Path("one", "audit.json").read_text())
    assert (table["method"], table["seed"]) == ("fedmf + clip:bound=1", 4)
    assert [one["protocol"] for one in table["audits"]] == ["fedrkg"]
    assert table["audits"][0]["rounds"] == 2


def test_the_same_audit_again_gets_a_folder_of_its_own(tacit, small):
    for _ in range(2):
        assert tacit("audit", "popularity", *small).code == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "audit-popularity-plays-seed0",
        "audit-popularity-plays-seed0-2",
    ]
    both = json.loads(Path("runs/audit-popularity-plays-seed0/audit.json").read_text())
    assert [one["protocol"] for one in both["audits"]] == ["clean"]  # it has no paper


def test_mistakes(tacit, small):
    wrong = tacit("audit", "pfedrek", *small)
    assert (wrong.code, wrong.out) == (2, "")
    assert "Unknown method 'pfedrek'; did you mean 'pfedrec'?" in wrong.err
    Path("used").mkdir()
    Path("used", "thesis.txt").write_text("mine")
    used = tacit("audit", "pfedrec", *small, "--rounds", 100000, "--out", "used")
    assert used.code == 2
    assert "'used' is not an empty folder; choose another --out." in used.err
    assert [path.name for path in Path("used").iterdir()] == ["thesis.txt"]


def test_ctrl_c_leaves_nothing(tacit, small, monkeypatch):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tacit.audit.subject.Subject.outcome", stop)
    said = tacit("audit", "pfedrec", *small, "--rounds", 1)
    assert said.code == 2
    assert "Stopped by the keyboard." in said.err
    assert list(Path().iterdir()) == []


def test_a_half_written_page_is_taken_away(tacit, small, monkeypatch):
    write = Path.write_text

    def fail(path: Path, text: str, **options: str) -> int:
        if path.name == "audit.html":
            raise KeyboardInterrupt
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", fail)
    assert tacit("audit", "popularity", *small).code == 2
    assert list(Path("runs").iterdir()) == []


# The audit of a guarantee


def test_privacy(tacit):
    asked = ("audit", "privacy", "pfedrec", "--with", "private:epsilon=4", "--rounds", 2)
    said = tacit(*asked, "--draws", 1000, "--seeds", 2, "--out", "a")
    assert said.code == 0, said.err
    assert "1,000 draws" in said.out
    assert "not refuted" in said.out
    assert "user-level ε = 4" in said.out
    assert sorted(path.name for path in Path("a").iterdir()) == [
        *("privacy-bounds.png", "privacy-bounds.svg", "privacy.csv", "privacy.json"),
    ]
    page = json.loads(Path("a/privacy.json").read_text())
    assert (page["audit"], page["verdict"], page["exceeded"]) == ("privacy", "not refuted", [])
    assert page["caught"] == [0, 1]
    assert page["claim"]["releases"] == 2
    as_json = tacit(*asked, "--draws", 100, "--json")
    assert json.loads(as_json.out)["draws"] == 100
    assert Path("runs/audit-privacy-pfedrec+private-planted-seed0/privacy.csv").is_file()


def test_mistakes_of_privacy(tacit):
    for arguments, sentence in (
        (("fedmf",), "states no guarantee"),
        (("fedmf", "--with", "gaussian"), "states no guarantee"),
        (("fedmf", "--draws", 5), "draws is 5"),
        (("pfedrek",), "Unknown method"),
    ):
        said = tacit("audit", "privacy", *arguments, "--out", "bad")
        assert (said.code, said.out) == (2, ""), arguments
        assert sentence in said.err.splitlines()[-1]
        assert not Path("bad").exists()


def test_leaks_by_name(tacit, small):
    short = tacit("audit", "popularity", *small, "--json", "--out", "a")
    long = tacit("audit", "leaks", "popularity", *small, "--json", "--out", "b")
    assert short.code == long.code == 0
    assert short.out == long.out
    options_first = tacit("audit", "--seed", 1, "popularity", *small, "--json", "--out", "c")
    assert json.loads(options_first.out)["seed"] == 1
