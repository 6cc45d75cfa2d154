"""What a person may change of a deployment, and the texts that follow from it.

`deployment.toml` is read by the server alone. Units, the compose file, the Flower app and the
connection of `flwr` are rendered once from the templates beside this module.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from pydantic import TypeAdapter, ValidationError

from tacit.coordinator.robust import RobustRule
from tacit.coordinator.rounds import Rules
from tacit.coordinator.secure import SecureSettings
from tacit.errors import TacitError, nearest, shown
from tacit.files import make_folder, reading, write_text

SETTINGS = "deployment.toml"
LOOPBACK = ("127.0.0.1", "localhost")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True)
class Settings:
    """What deployment.toml says.

    An exchange counts with answers of at least `quorum` of those invited and closes at once with
    those of `enough`; both are shares, and `deadline` is in seconds. A run begins when all nodes
    are online, or after `wait` seconds with those of a quorum. With `validates` nodes are asked for
    sums of hits. `rule` says how uploads become one sum, and with `secure` they are added up under
    masks. `allow_tables` plays methods whose server reads single tables of people.
    """

    name: str
    host: str
    port: int
    nodes: tuple[str, ...]
    quorum: float = 0.5
    enough: float = 1.0
    deadline: float = 120.0
    wait: float = 120.0
    validates: bool = True
    rule: RobustRule = RobustRule()
    secure: SecureSettings | None = None
    allow_tables: bool = False

    def __post_init__(self) -> None:
        for one in (self.name, *self.nodes):
            require_name(one, "a deployment or a node")
        if not self.nodes or len(set(self.nodes)) != len(self.nodes):
            raise TacitError("A deployment needs nodes, each with a name of its own.")
        if not 1 <= self.port <= 65535:
            raise TacitError(f"The port is {self.port}; it must lie between 1 and 65535.")
        self.rules("check").check()

    def rules(self, run: str) -> Rules:
        return Rules(
            self.name,
            run,
            quorum=self.quorum,
            enough=self.enough,
            deadline=self.deadline,
            validates=self.validates,
            rule=self.rule,
            secure=self.secure,
            allow_tables=self.allow_tables,
        )

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def require_name(name: str, what: str) -> None:
    """Refuse what is no name: names are those of folders, processes and services.

    >>> require_name("../elsewhere", "a run")
    Traceback (most recent call last):
    tacit.errors.TacitError: '../elsewhere' is no name for a run; write small letters, digits and \
-, beginning with a letter, at most 32 of them.
    """
    if not _NAME.fullmatch(name):
        raise TacitError(
            f"{shown(name)} is no name for {what}; write small letters, digits and -, beginning "
            "with a letter, at most 32 of them."
        )


def read_settings(path: Path) -> Settings:
    """What a file says; a mistyped setting is refused, since a forgotten one is quietly another."""
    with reading(path, "write it as `tacit deploy init` does"):
        text = path.read_text(encoding="utf-8")
    try:
        found = TypeAdapter(dict[str, Any]).validate_python(tomllib.loads(text))
        for kind, table in (
            (Settings, found),
            (RobustRule, found.get("rule", {})),
            (SecureSettings, found.get("secure", {})),
        ):
            known = [field.name for field in fields(kind)]
            unknown = sorted(set(table) - set(known))
            if unknown:
                raise TacitError(
                    f"{str(path)!r} has an unknown setting {shown(unknown[0])}; "
                    f"{nearest(unknown[0], known)}"
                )
        return TypeAdapter(Settings).validate_python(found)
    except tomllib.TOMLDecodeError as error:
        raise TacitError(f"{str(path)!r} is no TOML ({error}); correct it.") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise TacitError(f"{str(path)!r}: {place}: {first['msg'].lower()}; correct it.") from error


# Texts for people, Flower, systemd and containers.

TEXTS = {
    SETTINGS: "deployment.toml",
    "pyproject.toml": "pyproject.toml",
    "client_app.py": "client_app.py",
    "server_app.py": "server_app.py",
    "README.md": "README.md",
    "compose.yaml": "compose.yaml",
    ".gitignore": "gitignore",
    ".flwr/config.toml": "config.toml",
    "units/superlink.service": "superlink.service",
    "units/supernode@.service": "supernode.service",
}


@cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("tacit.deployment", "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # none of it is HTML
    )
    found.filters["text"] = json.dumps  # a quoted text of TOML, YAML and Python
    return found


def write_texts(folder: Path, settings: Settings, label: str, later: Path) -> None:
    """All texts into a folder that will be called `later`; what a template misses is an error."""
    known = {
        "settings": settings,
        "label": label,
        "folder": str(later),
        "programs": str(Path(sys.executable).parent),
    }
    for name, template in TEXTS.items():
        make_folder((folder / name).parent)
        text = _templates().get_template(f"{template}.jinja").render(**known)
        write_text(folder / name, text)
