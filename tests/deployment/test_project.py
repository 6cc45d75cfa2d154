"""A deployment as files: whole, private where it must be, and read again as it was written."""

from __future__ import annotations

import math
import ssl
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.coordinator.records import RoundRecord
from tacit.coordinator.robust import RobustRule
from tacit.coordinator.secure import SecureSettings
from tacit.data.dataset import FeatureTable, Modalities
from tacit.deployment.catalogues import Items, Shelf
from tacit.deployment.keys import days_left, make_authority, make_certificate
from tacit.deployment.project import (
    Plan,
    Project,
    Settings,
    make_project,
    open_project,
    rehearsal,
)
from tacit.deployment.settings import write_texts
from tacit.errors import TacitError
from tacit.experiment.resolve import resolve
from tacit.node.device import Node
from tacit.node.store import read_key

SETTINGS = Settings("shop", "127.0.0.1", 9091, ("node-1", "node-2", "node-3"))
SECRET = {"ca.key", "server.key", "auth.key", "runtime.key", "node.key"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    experiment = resolve("fedmf", rounds=2, sets=["backbone.dim=4"])
    return make_project(tmp_path / "shop", rehearsal(SETTINGS, experiment))


def test_secrets_are_for_their_owner_alone(project: Project) -> None:
    found = {path.name: path for path in project.folder.rglob("*.key")}
    assert found.keys() == SECRET
    for path in project.folder.rglob("*.key"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert project.folder.stat().st_mode & 0o077 == 0
    secrets = [
        path.read_text().split("\n")[1][:40] for path in found.values() if path.name != "node.key"
    ]
    secrets += [one.key.read_text().strip() for one in project.nodes]
    for path in project.folder.rglob("*"):
        if path.is_file() and path.suffix not in (".key", ".box"):
            text = path.read_bytes()
            assert not any(secret.encode() in text for secret in secrets), path


def test_people_are_dealt_to_nodes_with_their_histories(project: Project) -> None:
    data = project.experiment().data.load(project.experiment().protocol.duplicates)
    nodes = [Node.open(one.data, read_key(one.key)) for one in project.nodes]
    assert sum((node.people for node in nodes), ()) == data.interactions.users
    assert sum(len(node.history()) for node in nodes) == len(data.interactions)
    roster = project.roster()
    assert [member.name for member in roster.members] == list(SETTINGS.nodes)
    assert all(node.settings.directory == roster.directory for node in nodes)
    assert [member.people for member in roster.members] == [len(node.people) for node in nodes]
    assert open_project(project.folder) == project
    assert project.shelf.latest.ids == data.interactions.items


def test_the_certificate_is_good_for_the_server_and_from_our_authority_alone(
    project: Project, tmp_path: Path
) -> None:
    for hosts, name, good in (
        ((), "localhost", True),
        ((), "127.0.0.1", True),
        ((), "shop.example", False),
        (("shop.example",), "shop.example", True),
    ):
        project.renew_certificate(hosts)
        assert _shakes_hands(project.certificate, project.authority[0], name) == good
    other = tmp_path / "other.pem"
    other.write_bytes(make_authority("other").public)
    assert not _shakes_hands(project.certificate, other, "localhost")
    assert 360 < days_left(project.certificate[0]) <= 365


def _shakes_hands(pair: tuple[Path, Path], authority: Path, name: str) -> bool:
    """TLS over memory: what a client with that authority thinks of the server."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*map(str, pair))
    client = ssl.create_default_context(cafile=str(authority))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=name)
    two = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(4):
            for side in (one, two):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError:
        return False
    return one.version() == "TLSv1.3"


def test_what_nodes_are_sent_names_no_path_and_no_secret(project: Project) -> None:
    app = tomllib.loads((project.folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert app["fab-include"] == ["client_app.py", "server_app.py"]
    for name in ("pyproject.toml", *app["fab-include"]):
        assert str(project.folder) not in (project.folder / name).read_text()
    units = sorted(path.name for path in (project.folder / "units").iterdir())
    assert units == ["superlink.service", "supernode@.service"]
    compose = (project.folder / "compose.yaml").read_text()
    assert all(f"  {name}:\n" in compose for name in SETTINGS.nodes)


def test_new_keys(project: Project) -> None:
    before = project.node("node-2").auth[0].read_text()
    project.renew_node_key("node-2")
    assert project.node("node-2").auth[0].read_text() != before
    with pytest.raises(TacitError, match="No node 'node-9' here"):
        project.renew_node_key("node-9")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "My Shop"}, "is no name for a deployment"),
        ({"nodes": ()}, "needs nodes"),
        ({"nodes": ("a", "a")}, "needs nodes"),
        ({"port": 0}, "must lie between 1 and 65535"),
        ({"quorum": 0.0}, "quorum is 0.0"),
        ({"deadline": -1.0}, "deadline is -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(TacitError, match=said):
        replace(SETTINGS, **change)


def test_a_mistyped_setting_is_refused(project: Project) -> None:
    path = project.folder / "deployment.toml"
    path.write_text(path.read_text().replace("quorum", "qorum"))
    with pytest.raises(TacitError, match="unknown setting 'qorum'"):
        open_project(project.folder)
    path.write_text(path.read_text().replace("qorum", "quorum").replace('name = "mean', 'nmae = "'))
    with pytest.raises(TacitError, match="unknown setting 'nmae'"):
        open_project(project.folder)
    path.write_text("no toml")
    with pytest.raises(TacitError, match="is no TOML"):
        open_project(project.folder)


def test_every_setting_is_written_and_read_again(tmp_path: Path) -> None:
    """One that is not written would quietly be another after the first reading."""
    changed: dict[str, Any] = {
        "quorum": 0.6,
        "enough": 0.8,
        "deadline": 7.0,
        "wait": 3.0,
        "validates": False,
        "rule": RobustRule("mean", 2.5, math.inf, False, 0.3, touched=True, norm_first=True),
        "secure": SecureSettings(2, colluders=1, bound=4.0, bits=64),
        "allow_tables": True,
    }
    assert {*changed, "name", "host", "port", "nodes"} == {one.name for one in fields(Settings)}
    settings = replace(SETTINGS, **changed)
    pairs = ((settings.rule, RobustRule("mean")), (settings.secure, SecureSettings(9)))
    for given, first in pairs:  # but for the name of the rule, nothing is as it is by default
        same = [name for name, value in vars(given).items() if value == getattr(first, name)]
        assert same in (["name"], [])
    write_texts(tmp_path, settings, "FedMF", tmp_path)
    assert open_project(tmp_path).settings == settings
    write_texts(tmp_path, SETTINGS, "FedMF", tmp_path)
    assert open_project(tmp_path).settings == SETTINGS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "ease"], "wants whole histories"),
        (["--method", "metamf"], "reads every single upload"),
        (["--method", "gpfedrec"], "reads single tables of people, which nothing protects"),
        (["--method", "gpfedrec", "--allow-tables"], "reads single tables, and node 'node-1' has"),
        (
            ["--method", "fedmf", "--with", "private:epsilon=8"],
            "this deployment has no secure sums",
        ),
        (["--method", "fedmf", "--secure", "2"], "Secure sums need a bound"),
        (["--method", "fedease", "--secure", "3"], "secure.fewest is 3, and 2 nodes are invited"),
        (["--method", "fedmf", "--split", "global_time"], "looks at all people together"),
        (["--method", "fedmf", "--name", "My Shop"], "is no name for a deployment or a node"),
        (["--method", "fedmf", "--port", "0"], "must lie between 1 and 65535"),
        (["--method", "fedmf", "--nodes", "0"], "nodes"),
        (["--method", "fedmf", "--nodes", "9999"], "cannot be dealt to 9999 nodes"),
    ],
)
def test_what_no_server_would_play_is_refused_at_once(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "init", str(tmp_path / "shop"), "--nodes", "2", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_reads_tables_needs_nodes_that_send_them(tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text("item\ntea\nrice\n")
    arguments = ["--method", "gpfedrec", "--nodes", "2", "--catalogue", str(items)]
    assert main(["deploy", "init", str(tmp_path / "shop"), *arguments, "--allow-tables"]) == 0
    project = open_project(tmp_path / "shop")
    assert project.settings.rules("one").allow_tables
    for place in project.nodes:
        assert Node.open(place.data, read_key(place.key)).settings.agreement.allow_tables


def test_refusals_of_the_server_and_of_nodes_are_shown_apart() -> None:
    from tacit.cli.deploy import _row

    both = {"refused": {"unreadable": 3}, "declined": {"unreadable": 2}}
    record = RoundRecord("shop", "one", "exchange", 1, 0, "train", ("a",), (), **both)
    assert _row(record)[2] == "unreadable 3, declined: unreadable 2"


def test_nothing_is_half_written(tmp_path: Path) -> None:
    experiment = resolve("fedmf", rounds=2)
    bad = Plan(SETTINGS, experiment, Items(("a", "a")), {})
    with pytest.raises(TacitError):
        make_project(tmp_path / "shop", bad)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TacitError, match="something at"):
        make_project(tmp_path, bad)


def test_versions_of_a_catalogue_go_on_from_each_other(tmp_path: Path) -> None:
    def rows(count: int) -> Modalities:
        table = FeatureTable(np.ones((count, 3), np.float32), np.ones(count, bool))
        return Modalities({"text": table})

    shelf = Shelf(tmp_path)
    shelf.write(Items(("a", "b"), ("A", "B"), rows(2)))
    later = shelf.add(["c"], ["C"], rows(1))
    assert shelf.latest.ids == later.ids == ("a", "b", "c")
    assert shelf.latest.content["text"].value_IF.shape == (3, 3)
    assert shelf.read(1).ids == ("a", "b")
    with pytest.raises(TacitError, match="must begin with the 3 items"):
        shelf.write(Items(("a", "c"), version=3))
    with pytest.raises(TacitError, match="need content of the kinds"):
        shelf.add(["d"], ["D"], Modalities())


def test_the_command_writes_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = tmp_path / "items.csv"
    items.write_text("item,title\ntea,Tea\nrice,Rice\n")
    folder = str(tmp_path / "corner-shop")
    arguments = ["deploy", "init", folder, "--method", "fedmf", "--nodes", "2"]
    assert main([*arguments, "--catalogue", str(items)]) == 0
    assert open_project(folder).settings.nodes == ("node-1", "node-2")
    assert main(["deploy", "status", folder]) == 0
    assert "no run yet" in capsys.readouterr().out
    assert main(["deploy", "down", folder]) == 0
    assert main([*arguments, "--catalogue", str(items)]) == 2
    assert main(["deploy", "status", str(tmp_path)]) == 2
    assert "There is no deployment at" in capsys.readouterr().err


def test_without_flower_nothing_is_started(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "flwr.app", None)  # as if it were not installed
    assert main(["deploy", "up", str(project.folder)]) == 2
    assert "A deployment needs Flower; install it" in capsys.readouterr().err
    assert not (project.folder / "run").exists()


def test_a_certificate_needs_its_authority() -> None:
    one = make_certificate(make_authority("shop"), "shop", ["127.0.0.1"])
    assert b"BEGIN CERTIFICATE" in one.public
    assert "PRIVATE" in one.private.decode()
    assert "PRIVATE" not in repr(one)
