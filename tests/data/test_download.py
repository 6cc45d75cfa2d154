"""Fetching over loopback: checked, resumed, never half there."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tacit.cli.main import main
from tacit.data.download import Manifest, ManifestFile, get, read_manifest
from tacit.errors import TacitError

BODY = bytes(range(256)) * 1000
LOCATIONS = {"/to-file": "file:///etc/hostname", "/to-ftp": "ftp://127.0.0.1/x"}
DIGEST = hashlib.sha256(BODY).hexdigest()


@dataclass
class Served:
    """What the server was asked, and the address of its root."""

    root: str
    ranges: list[str | None] = field(default_factory=list)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server on loopback: /whole, /ranged, /short, /to-…, /gone; it ends with the test."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Served("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            if self.path in LOCATIONS:
                self.send_response(302)
                self.send_header("Location", LOCATIONS[self.path])
                self.end_headers()
                return
            if self.path == "/gone":
                self.send_error(404)
                return
            start = int(asked[6:-1]) if asked and self.path == "/ranged" else 0
            body = BODY[start : len(BODY) // 2] if self.path == "/short" else BODY[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(BODY) - start))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.root = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)
    assert not thread.is_alive()


def manifest(url: str, sha256: str = DIGEST, size: int = len(BODY)) -> Manifest:
    return Manifest("few", "free", (ManifestFile(url, sha256, size, "deep/few.bin"),))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_fetches_and_reports(served: Served, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    paths = get(manifest(f"{served.root}/whole"), tmp_path, lambda *step: seen.append(step))
    assert paths == (tmp_path / "deep" / "few.bin",)
    assert paths[0].read_bytes() == BODY
    assert files(tmp_path) == ["few.bin"]
    assert seen[-1] == ("deep/few.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_does_not_fetch_twice(served: Served, tmp_path: Path) -> None:
    get(manifest(f"{served.root}/whole"), tmp_path)
    get(manifest(f"{served.root}/whole"), tmp_path)
    assert len(served.ranges) == 1


def test_replaces_a_file_that_is_not_right(served: Served, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "few.bin").write_bytes(b"old")
    get(manifest(f"{served.root}/whole"), tmp_path)
    assert (tmp_path / "deep" / "few.bin").read_bytes() == BODY


@pytest.mark.parametrize("page", ["ranged", "whole"])
def test_goes_on_where_it_stopped(served: Served, tmp_path: Path, page: str) -> None:
    with pytest.raises(TacitError, match=r"(ended after 128000 of 256000|could not be fetched)"):
        get(manifest(f"{served.root}/short"), tmp_path)
    assert files(tmp_path) == ["few.bin.part"]
    held = (tmp_path / "deep" / "few.bin.part").stat().st_size
    get(manifest(f"{served.root}/{page}"), tmp_path)
    assert served.ranges[-1] == f"bytes={held}-"
    assert (tmp_path / "deep" / "few.bin").read_bytes() == BODY
    assert files(tmp_path) == ["few.bin"]


def test_wrong_checksum_leaves_nothing(served: Served, tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="SHA-256 differs"):
        get(manifest(f"{served.root}/whole", sha256="0" * 64), tmp_path)
    assert files(tmp_path) == []


def test_damaged_part_is_thrown_away(served: Served, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "few.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(TacitError, match="SHA-256 differs"):
        get(manifest(f"{served.root}/ranged"), tmp_path)
    assert files(tmp_path) == []


def test_longer_than_announced(served: Served, tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="longer than the 10 bytes"):
        get(manifest(f"{served.root}/whole", size=10), tmp_path)
    assert files(tmp_path) == []


def test_not_found(served: Served, tmp_path: Path) -> None:
    with pytest.raises(TacitError, match=r"could not be fetched .*status 404"):
        get(manifest(f"{served.root}/gone"), tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("page", "said"), [("to-file", "status 302"), ("to-ftp", "which is no web address")]
)
def test_redirection_off_the_web_is_refused(
    served: Served, tmp_path: Path, page: str, said: str
) -> None:
    with pytest.raises(TacitError, match=said):
        get(manifest(f"{served.root}/{page}"), tmp_path)
    assert files(tmp_path) == []


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(TacitError, match="could not be fetched"):
        get(manifest("http://127.0.0.1:9/few"), tmp_path)


def test_manifest_file_with_a_file_address(tmp_path: Path) -> None:
    (tmp_path / "origin").write_bytes(BODY)
    path = tmp_path / "few.toml"
    path.write_text(
        f'name = "few"\nlicence = "free"\n[[file]]\nurl = "{(tmp_path / "origin").as_uri()}"\n'
        f'sha256 = "{DIGEST}"\nbytes = {len(BODY)}\npath = "u.data"\n'
    )
    assert read_manifest(path).licence == "free"
    assert get(path, tmp_path / "out")[0].read_bytes() == BODY


def test_named_sources_have_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(
        TacitError, match=r"get them from their owner \(GroupLens.*u.data and u.item"
    ):
        get("ml-100k", tmp_path)
    with pytest.raises(TacitError, match="did you mean 'ml-100k'"):
        get("ml-100", tmp_path)


@pytest.mark.parametrize("url", ["ftp://x/y", "data:,x", "/etc/passwd", "javascript:1"])
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(TacitError, match="only http, https, file are read"):
        manifest(url)


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", "", ".", "C:\\a", "a\\b"])
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(TacitError, match="must be relative"):
        ManifestFile("https://example.org/a", DIGEST, 1, path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name = ", "is not a readable TOML file"),
        ('name = "x"\nlicense = "y"', "unknown entry 'license'; did you mean 'licence'"),
        ('name = "x"\nlicence = "y"', "needs an entry 'file'"),
        ('name = "x"\nlicence = "y"\nfile = []', "lists 0 files"),
        ('name = "x"\nlicence = "y"\nfile = [1]', "must be a table"),
        ('name = "x"\nlicence = "y"\n[[file]]\nurl = 3', "needs an entry 'url' of type str"),
    ],
)
def test_bad_manifest(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(TacitError, match=said):
        read_manifest(path)


def test_bad_entries() -> None:
    with pytest.raises(TacitError, match="64 hexadecimal digits"):
        manifest("https://example.org/a", sha256="abc")
    with pytest.raises(TacitError, match="must be at least 1"):
        manifest("https://example.org/a", size=0)
    file = ManifestFile("https://example.org/a", DIGEST, 1, "a")
    with pytest.raises(TacitError, match="one path twice"):
        Manifest("x", "y", (file, file))


UNSAFE = ["/tmp/elsewhere", "../..", "..", "a/../../b", "", ".", "c:\\x", "a\\b", "a\0b", "a\nb"]


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_stays_inside_as_paths_do(name: str) -> None:
    file = ManifestFile("https://example.org/a", "0" * 64, 1, "a")
    with pytest.raises(TacitError, match=r"The name .* stay inside the destination"):
        Manifest(name, "free", (file,))
    with pytest.raises(TacitError, match=r"The path .* stay inside the destination"):
        ManifestFile("https://example.org/a", "0" * 64, 1, name)


@pytest.mark.parametrize("name", ["OUTSIDE", "../..", "../escaped"])
def test_no_name_writes_outside_the_cache(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    cache = tmp_path / "deep" / "cache"
    monkeypatch.setenv("TACIT_CACHE", str(cache))
    origin = tmp_path / "origin"
    origin.write_bytes(BODY)
    name = str(tmp_path / "absolute") if name == "OUTSIDE" else name
    text = f'name = "{name}"\nlicence = "x"\n[[file]]\nurl = "{origin.as_uri()}"\n'
    text += f'sha256 = "{DIGEST}"\nbytes = {len(BODY)}\npath = "got"\n'
    (tmp_path / "few.toml").write_text(text)
    assert main(["data", "get", str(tmp_path / "few.toml")]) == 2
    assert "stay inside the destination" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["few.toml", "origin"]


@pytest.mark.parametrize(
    "text", ["x = " + "9" * 5000, "x = " + "[" * 5000, "x = {" * 2000, "\x00", 'name = "a']
)
def test_manifests_that_no_parser_takes(text: str, tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(text)
    with pytest.raises(TacitError, match="is not a readable TOML file") as caught:
        read_manifest(tmp_path / "few.toml")
    assert len(str(caught.value)) < 500
