"""The rules of the house, read from the source itself: nothing is imported or run.

Each test has a list of what is still against its rule. A new entry is refused; one that holds no
longer must be taken from the list, so that the lists only become shorter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tacit"

# From the ground up. A package imports what stands before it, so that there can be no cycle.
FLOORS = (
    ("errors", "memory", "compiled", "streams", "files", "names"),
    ("privacy", "wire"),
    ("data", "content", "evaluation"),
    ("core",),
    ("parts",),
    ("plugins", "central", "methods"),
    ("engines",),
    ("experiment",),
    ("study", "analysis", "attack", "audit"),
    ("node", "coordinator"),
    ("flower", "deployment"),
    ("testing", "cli"),
    ("",),  # the public names in tacit/__init__.py
)


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOKED_AT = (
    *SCOPES,
    *(ast.Import, ast.ImportFrom, ast.Call, ast.Compare, ast.MatchClass, ast.Subscript),
    *(ast.Module, ast.Constant),
)


class Module(NamedTuple):
    name: str  # without the leading "tacit."; "" for the package itself
    text: str
    nodes: tuple[tuple[str, ast.AST], ...]  # with the function or class each stands in

    @classmethod
    def read(cls, name: str, text: str) -> Module:
        """One walk for all tests, which keeps what they look at."""
        nodes, left = [], [("", ast.parse(text))]
        while left:
            scope, node = left.pop()
            if isinstance(node, SCOPES):
                scope = f"{scope}.{node.name}".lstrip(".")
            if isinstance(node, LOOKED_AT):
                nodes.append((scope, node))
            left.extend((scope, child) for child in ast.iter_child_nodes(node))  # type: ignore[misc]
        return cls(name, text, tuple(nodes))

    @property
    def package(self) -> str:
        return self.name.split(".")[0]

    @property
    def body(self) -> list[ast.stmt]:
        [whole] = [node.body for _, node in self.nodes if isinstance(node, ast.Module)]
        return whole


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module.read(name, path.read_text(encoding="utf-8")))
    return tuple(found)


def assert_only(found: set[str], known: set[str]) -> None:
    """Nothing new is against a rule, and the list of what is known is not longer than needed."""
    new, gone = sorted(found - known), sorted(known - found)
    assert not new, "against the rule:\n" + "\n".join(new)
    assert not gone, "no longer against the rule, so take it from the list:\n" + "\n".join(gone)


def imports(module: Module) -> Iterator[tuple[str, str]]:
    """(name in use, full name) of all that is imported from tacit, wherever in the module."""
    for _, node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            whole = [(one.asname or one.name, f"{node.module}.{one.name}") for one in node.names]
        elif isinstance(node, ast.Import):
            whole = [(one.asname or one.name.split(".")[0], one.name) for one in node.names]
        else:
            continue
        yield from (pair for pair in whole if f"{pair[1]}.".startswith("tacit."))


# Imports run downwards only.

KNOWN_BACK_EDGES: set[str] = set()


def test_imports_run_downwards_only() -> None:
    height = {name: place for place, name in enumerate(sum(FLOORS, ()))}
    unplaced = {module.package for module in modules()} ^ set(height)
    assert not unplaced, f"on no floor, or on one and not there: {sorted(unplaced)}"
    found = set()
    for module in modules():
        for _, full in imports(module):
            package = full.split(".")[1] if "." in full else ""
            package = package if package in height else ""  # a public name
            if height[package] > height[module.package]:
                found.add(f"{module.package} -> {package}")
    assert_only(found, KNOWN_BACK_EDGES)


# Nobody asks for the class of a method or a part, but the claims of accelerators and the checks of
# what a user composes.

WATCHED = ("tacit.parts", "tacit.methods", "tacit.plugins", "tacit.central", "tacit.core")
NO_PARTS = ("tacit.core.types", "tacit.core.fit", "tacit.core.registry")  # plain values

CHECKS_OF_INPUT = {
    "methods.entry._accept": "what somebody registers as a method",
    "plugins.entry._accept": "what somebody registers as a plug-in",
}
ASKED_BY_CLAIMS = {
    "engines.accelerators.blocks.plain_block": "what all claims of blocks have in common",
    "engines.accelerators.gates.guidance": "what all claims of gates have in common",
    "engines.accelerators.networks.FlatNetwork.of": "whether a scorer can be laid out flat",
    "engines.accelerators.router.Router.of": "whether a router can be laid out flat",
}
KNOWN_SWITCHES: set[str] = set()


def is_watched(full: str) -> bool:
    under = [f"{full}.".startswith(f"{name}.") for name in WATCHED]
    return any(under) and not any(f"{full}.".startswith(f"{name}.") for name in NO_PARTS)


def asked_for(node: ast.AST) -> list[ast.expr]:
    """The classes that an expression compares the class of something with."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.args[1:2] if node.func.id in ("isinstance", "issubclass") else []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return sides if any(is_class_of(side) for side in sides) else []
    return [node.cls] if isinstance(node, ast.MatchClass) else []


def is_class_of(node: ast.expr) -> bool:
    """`type(x)`, `x.__class__` or a name of one of these."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__" or is_class_of(node.value)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def switches(module: Module) -> Iterator[str]:
    """Where a module asks whether something is of the class of a method or part."""
    watched = {short for short, full in imports(module) if is_watched(full)}
    if is_watched(f"tacit.{module.name}"):
        watched |= {node.name for node in module.body if isinstance(node, ast.ClassDef)}
    watched |= {  # names of collections of such classes
        target.id
        for node in module.body
        if isinstance(node, ast.Assign) and {*names_in(node.value)} & watched
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for function, node in module.nodes:
        for asked in asked_for(node):
            for name in sorted({*names_in(asked)} & watched):
                yield f"{module.name}.{function}: {name}"


def names_in(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def is_allowed(place: str) -> bool:
    """In a function that says what an accelerator takes, or in one that checks input."""
    named = (*CHECKS_OF_INPUT, *ASKED_BY_CLAIMS)
    listed = any(f"{place}.".startswith(f"{name}.") for name in named)
    accelerator = place.startswith("engines.accelerators.")
    return listed or (accelerator and any("claim" in word for word in place.split(".")))


def test_nobody_asks_for_the_class_of_a_method_or_part() -> None:
    pairs = [one.split(": ") for module in modules() for one in switches(module)]
    idle = [
        one
        for one in (*CHECKS_OF_INPUT, *ASKED_BY_CLAIMS)
        if not any(f"{p}.".startswith(f"{one}.") for p, _ in pairs)
    ]
    assert not idle, f"these ask for nothing any more: {idle}"
    found = [(place, name) for place, name in pairs if not is_allowed(place)]
    for place, name in found:
        print(f"{place} asks for {name}")  # which a failure shows
    assert_only({f"{place.split('.')[0]}: {name}" for place, name in found}, KNOWN_SWITCHES)


# A record of a run is read by attributes.

# What only run.json has by these names; `RunRecord` alone may look them up.
IN_A_RECORD = {
    *("metrics", "reference", "breakdown", "beyond", "privacy", "cost", "counts", "notes"),
    *("test_released", "selected_round", "rounds_run", "cpu_seconds", "select_metric", "clean"),
}
READS_RECORDS = {
    "experiment.record_format": "brings older files into the present format",
    "experiment.checkpoint": "reads the notes of checkpoints, which have some of these names",
    "analysis.cost": "has a column of this name in its own table",
    "cli.data": "shows what is known of a dataset, which has notes of its own",
}
KNOWN_READERS: set[str] = set()


def keys_read(module: Module) -> Iterator[str]:
    """The text between brackets or in `.get`, where something is looked up by a name."""
    for _, node in module.nodes:
        asked: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            asked = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.args[:1] if node.func.attr in ("get", "pop") else []
        yield from (str(one.value) for one in asked if isinstance(one, ast.Constant))


def test_a_record_is_read_by_attributes() -> None:
    found = {
        module.name
        for module in modules()
        if IN_A_RECORD & {*keys_read(module)} and module.name not in READS_RECORDS
    }
    assert_only(found, KNOWN_READERS)


def test_one_module_names_the_file_of_a_record() -> None:
    named = {
        module.name
        for module in modules()
        for _, node in module.nodes
        if isinstance(node, ast.Constant) and node.value == "run.json"
    }
    assert named == {"experiment.folder"}


# A module is one whole idea.

FEWEST_LINES = 40  # of code: no blank lines, comments or docstrings
SMALL = {
    "coordinator.memory": "the transport without a network, for tests and trials of faults",
    "core.capabilities": "what may be trusted of a part: asked by parts, algorithms and engines",
    "experiment.amounts": "numbers as people read them, wherever they are written",
    "experiment.prepare": "the data of an experiment, before anything is trained or written",
    "parts.objectives": "the losses: where the next one goes",
    "plugins.recency": "the plug-in that methods without parts take, too",
    "testing.synthetic": "datasets with a known answer, for whoever tests a method",
}
KNOWN_CRUMBS: set[str] = set()


def code_lines(module: Module) -> int:
    documented = (ast.Module, *SCOPES)
    prose: set[int] = set()
    for _, node in module.nodes:
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first = node.body[0]
            prose.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(module.text.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in prose
        for number, line in lines
    )


def test_modules_are_no_crumbs() -> None:
    """A package's own file may be empty or list its names."""
    packages = {module.name.rpartition(".")[0] for module in modules()}
    small = {
        module.name
        for module in modules()
        if module.name not in packages and code_lines(module) < FEWEST_LINES
    }
    assert SMALL.keys() <= small, f"no longer small: {sorted(SMALL.keys() - small)}"
    assert_only(small - SMALL.keys(), KNOWN_CRUMBS)


# Arguments travel in a few values that have names.

MOST_POSITIONAL = 12
KNOWN_LONG = {
    "plugins.fusion.fedmr",
}


def test_no_function_has_many_positional_parameters() -> None:
    found = set()
    for module in modules():
        for _, node in module.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = len(node.args.posonlyargs) + len(node.args.args)
                if given > MOST_POSITIONAL:
                    found.add(f"{module.name}.{node.name}")
    assert_only(found, KNOWN_LONG)


# What the checks above would find, on small sources of their own.


@pytest.mark.parametrize(
    "asks",
    [
        "isinstance(x, Mixture)",
        "isinstance(x, int | Mixture)",
        "type(x) is Mixture",
        "type(x) in (int, Mixture)",
        "type(x) in KINDS",
        "x.__class__ is not items.Mixture",
        "issubclass(type(x), (items.Mixture, int))",
    ],
)
def test_ways_to_ask_for_a_class_are_seen(asks: str) -> None:
    text = (
        "from tacit.parts import items\nfrom tacit.parts.items import Mixture\n"
        f"KINDS = (Mixture, int)\ndef f(x):\n    return {asks}\n"
    )
    assert [*switches(Module.read("engines.one", text))] != []
    matched = f"{text}def g(x):\n    match x:\n        case Mixture(): return 1\n"
    assert len([*switches(Module.read("engines.one", matched))]) >= 2
    plain = text.replace(asks, "isinstance(x, int) and type(x) is float")
    assert [*switches(Module.read("engines.one", plain))] == []


def test_ways_to_import_are_seen() -> None:
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tacit.run.folder import A\n"
        "def f():\n    import tacit.cli.main\n    from tacit import engines\n"
    )
    assert {full for _, full in imports(Module.read("one", text))} == {
        "tacit.run.folder.A",
        "tacit.cli.main",
        "tacit.engines",
    }


def test_ways_to_read_a_record_are_seen() -> None:
    text = 'a = r["cost"]\nb = r.get("notes", ())\nr["kept"] = 1\nc = r[0]["metrics"]'
    assert {"cost", "notes", "metrics"} <= {*keys_read(Module.read("one", text))}
    assert "kept" not in {*keys_read(Module.read("one", text))}
