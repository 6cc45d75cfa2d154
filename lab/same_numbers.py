"""Whether two versions of tacit give the same numbers, bit for bit.

`record` plays many small experiments on the dataset `planted` and writes what came out: metrics,
references, cost, and digests of the ranks and of the lines of every round. `compare` reads two such
files and prints what differs. `against` does both, for another commit and for this tree:

    python -m lab.same_numbers record new.json
    python -m lab.same_numbers compare base.json new.json
    python -m lab.same_numbers against HEAD~1

The exit code is 1 where anything differs. An experiment is described by words that all versions
understand, and its results are read from the files of its run folder, so that a version may be
compared with one whose modules had other names.

A kernel that this process compiled may differ in the last bit from the same kernel read from the
cache, where the machine code was optimised as a whole. So the experiments are played again, in a
new process, until two passes in a row agree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MOST_PASSES = 4
SECONDS = "seconds"  # of CPU: the one thing recorded that is no number of the experiment
RANKS = ["user", "item", "above", "tied", "candidates"]  # columns of ranks.parquet

METHODS = (
    *("cofedrec", "cs_fcf", "cs_fedncf", "ease", "fcf", "fcf_als", "fedavg", "feddae", "fedease"),
    *("fedmf", "fedncf", "fedneumf", "fedpergnn", "fedrap", "fedrecon", "fedspectral", "fedvbpr"),
    *("gpfedrec", "pfedrec", "mdifffr", "light_mdifffr", "ipfedrec", "ifedncf", "local_only"),
    *("mean_profile", "metamf", "mf", "ncf", "neumf", "popularity", "pure_svd", "random"),
    *("unseen_first", "fednext", "fedpop", "dpals", "markov", "slist", "gru4rec", "sasrec"),
    *("edlae", "slim", "fedslim", "fedmix", "ials", "bprmf", "lightgcn"),
    *("heater", "gar", "aldi", "cs_diffrec"),
    *("vbpr", "bm3", "mgcn", "pgl"),
)
PLUGINS = (
    *(("fedmf", ["dual_personalised"]), ("fedncf", ["dual_personalised"])),
    *(("fedrecon", ["dual_personalised"]), ("fedmf", ["fedrkg:every=2"])),
    *(("fedncf", ["fedrkg:every=2"]), ("pfedrec", ["fedrkg:every=2"]), ("fedmf", ["pie"])),
    *(("fedmf", ["fedrkg_without_ag:every=2"]), ("fcf", ["fedmr:id_width=32"])),
    *(("fedmf", ["fedmr:id_width=32"]), ("fedncf", ["fedvlr:id_width=32"])),
    *(("fedneumf", ["fedmr:id_width=32"]), ("pfedrec", ["fedmr:id_width=32"])),
    *(("fedrap", ["fedmr:id_width=32"]), ("fcf", ["id_only"]), ("fedmf", ["laplace:scale=0.01"])),
    *(("pfedrec", ["clip:bound=1", "gaussian:sigma=0.01"]), ("fedmf", ["clip:bound=0.5"])),
    *(("pfedrec", ["mdifffr"]), ("pfedrec", ["ridge"]), ("fedmf", ["nearest"])),
)
COLD: tuple[tuple[str, list[str]], ...] = (
    ("pfedrec", ["ridge"]),
    ("mdifffr", []),
    ("ipfedrec", []),
)
ENGINES = ("loop", "cohort", "fused")
SPLITS = ("random", "row", "item_appearance")


class Case(NamedTuple):
    """One experiment: a method by name and what else is given to `tacit.resolve`.

    >>> Case("fedmf", {"rounds": 2}).key
    '["fedmf", {"rounds": 2}]'
    """

    method: str
    options: Mapping[str, Any]

    @property
    def key(self) -> str:
        return json.dumps([self.method, self.options])


def cases() -> Iterator[Case]:
    """Every method twice, families of plug-ins, engines, splits, protocols, part participation.

    >>> len(list(cases())) > 99
    True
    """
    for name in METHODS:
        yield Case(name, {"rounds": 4})
        yield Case(name, {"rounds": 3, "protocol": "paper"})
    for name, plugins in PLUGINS:
        yield Case(name, {"rounds": 3, "plugins": plugins})
    for engine in ENGINES:
        for name in ("fedmf", "pfedrec", "fedncf"):
            yield Case(name, {"rounds": 2, "engine": engine})
    for name, plugins in COLD:
        yield Case(name, {"rounds": 3, "plugins": plugins, "split": "cold"})
    for split in SPLITS:
        yield Case("pfedrec", {"rounds": 2, "split": split})
    for protocol in ("pfedrec", "fedrkg", "fedmr"):
        yield Case("fedmf", {"rounds": 2, "protocol": protocol})
    for name in ("fedmf", "feddae", "fedncf"):
        yield Case(name, {"rounds": 3, "participation": 0.5, "seed": 7})


def played(case: Case) -> dict[str, Any]:
    """What one experiment gives, or the sentence that refuses it."""
    import tacit

    run, resolve = tacit.run, tacit.resolve
    began = time.process_time()
    try:
        experiment = resolve(case.method, data="planted", **case.options)
        with tempfile.TemporaryDirectory() as place:
            run(experiment, Path(place) / "one", threads=1)
            found = of_folder(Path(place) / "one")
    except tacit.TacitError as error:
        found = {"refused": str(error)}
    except Exception as error:  # a version that crashes is what this looks for
        found = {"crash": repr(error)[:300]}
    return found | {SECONDS: round(time.process_time() - began, 1)}


def of_folder(folder: Path) -> dict[str, Any]:
    """The numbers of a finished run, read from its files alone: all versions write these."""
    import polars as pl

    kept = json.loads((folder / "run.json").read_text())
    ranks = pl.read_parquet(folder / "ranks.parquet").select(RANKS).to_numpy()
    return {
        **{name: kept[name] for name in ("metrics", "reference", "cost")},
        "ranks": _digest(ranks.tobytes()),
        "lines": _digest((folder / "metrics.jsonl").read_bytes()),
    }


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def play(out: Path, chosen: Sequence[Case]) -> None:
    """Play the experiments one after the other; the file is written after each of them."""
    found: dict[str, Any] = {}
    for number, case in enumerate(chosen, start=1):
        found[case.key] = result = played(case)
        out.write_text(json.dumps(found, indent=1) + "\n")
        told = result.get("refused") or result.get("crash") or f"ranks {result['ranks']}"
        print(f"{number}/{len(chosen)} {case.key} {result[SECONDS]} s, {told}", flush=True)


def record(out: Path, only: str, source: Path | None = None) -> None:
    """Write what two passes in a row agree on; `source` has the package, else it is as here.

    The package comes first on the path, before an installed one; `-P` keeps this folder off it.
    """
    script = [sys.executable, "-P", str(Path(__file__).resolve()), "play"]
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    with tempfile.TemporaryDirectory() as place:
        passes = [Path(place) / f"{number}.json" for number in range(MOST_PASSES)]
        for number, path in enumerate(passes):
            command = [*script, str(path), "--only", only, "--package", str(source or "")]
            if subprocess.run(command, env=environment).returncode:
                sys.exit("The experiments could not be played.")
            if number and not other_numbers(passes[number - 1], path):
                out.write_bytes(path.read_bytes())
                return
        print("\n".join(other_numbers(*passes[-2:])))
    sys.exit(f"These numbers are not the same in two of {MOST_PASSES} passes.")


def other_numbers(base: Path, new: Path) -> list[str]:
    return list(differences(*(json.loads(path.read_text()) for path in (base, new))))


def differences(base: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """A line per experiment of the base that is missing or gives other numbers.

    >>> base = {"a": {"ranks": "1", "seconds": 2.0}, "b": {"ranks": "3"}}
    >>> list(differences(base, {"a": {"ranks": "2", "seconds": 1.0}}))
    ['a: ranks', 'b: missing']
    """
    for key, was in base.items():
        if key not in new:
            yield f"{key}: missing"
            continue
        now = new[key]
        fields = sorted((was.keys() | now.keys()) - {SECONDS})
        if other := [field for field in fields if was.get(field) != now.get(field)]:
            why = now.get("refused") or now.get("crash")
            yield f"{key}: {', '.join(other)}" + (f" ({why})" if why else "")


def compare(base: Path, new: Path) -> int:
    """Print what differs and return the exit code: 1 where anything does."""
    was, now = (json.loads(path.read_text()) for path in (base, new))
    lines = list(differences(was, now))
    print("\n".join([*lines, f"same {len(was) - len(lines)}, different {len(lines)}"]))
    if further := now.keys() - was.keys():
        print(f"not in the base, so not compared: {len(further)}")
    return 1 if lines or not was else 0


def against(commit: str, folder: Path, only: str) -> int:
    """Record a commit, in a work tree of its own, and this tree; compare the two."""
    folder.mkdir(parents=True, exist_ok=True)
    base, new = folder.absolute() / "base.json", folder.absolute() / "new.json"
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            record(base, only, tree / "src")
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    record(new, only, ROOT / "src")
    return compare(base, new)


def _require_package(source: str) -> None:
    import tacit

    if source and Path(source).resolve() not in Path(tacit.__file__).resolve().parents:
        sys.exit(f"The package in use is {tacit.__file__}, not the one in {source}.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.same_numbers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="write the numbers of all experiments")
    playing = verbs.add_parser("play", help="one pass of a record")
    playing.add_argument("--package", default="", help="refuse a package from elsewhere")
    other = verbs.add_parser("against", help="record a commit and this tree, and compare")
    for verb in (recording, playing):
        verb.add_argument("out", type=Path)
    for verb in (recording, playing, other):
        verb.add_argument("--only", default="", help="experiments whose description has this")
    comparing = verbs.add_parser("compare", help="print what differs between two such files")
    comparing.add_argument("base", type=Path)
    comparing.add_argument("new", type=Path)
    other.add_argument("commit")
    other.add_argument("--out", type=Path, default=Path("runs/same-numbers"))
    asked = parser.parse_args()
    if asked.verb == "compare":
        return compare(asked.base, asked.new)
    if asked.verb == "against":
        return against(asked.commit, asked.out, asked.only)
    chosen = [case for case in cases() if asked.only in case.key]
    if not chosen:
        sys.exit(f"No experiment's description has {asked.only!r}; leave --only out to see all.")
    if asked.verb == "record":
        record(asked.out, asked.only)
    else:
        _require_package(asked.package)
        play(asked.out, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
