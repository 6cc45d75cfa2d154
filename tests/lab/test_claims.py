"""What a document calls significant was tested, and its published results file says the same.

Every sentence of the README and of the documents that speaks of significance about
published rows stands here beside the tests that it rests on. A new sentence fails until it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from lab.definition import Data, Table, load_table
from lab.proofs import share_near
from lab.results import Results
from lab.verdict import SIGNIFICANT, both_done, compared, paired_test

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
METRICS = ("HR@10", "NDCG@10")
SPEAKS = re.compile(r"significant|told apart", re.IGNORECASE)
# sentences about how tests are made, not about rows
METHOD = (
    "Any metric at any cut-off, any group of users or items",
    "For each dataset and metric, finished rows above FedSpectral",
    "Tests hold every published cell to the definition of today",
)


@dataclass(frozen=True)
class Claim:
    """A sentence, and what it says of rows of a table on a dataset. `clear` differ significantly
    from the table's own row (or, of a gain, from the row without it); `unclear` do not. With
    `nothing_else` no other row above does."""

    table: str
    dataset: str
    metrics: tuple[str, ...]
    clear: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    nothing_else: bool = False


TWO, THREE = "fednext, ridge", "fednext, ridge and EASE"
EASES = ("ease", "fedease")
GAIN = (
    *EASES,
    *("pure_svd", "fedspectral", "fcf_als", "fedrecon", "fedmf", "pfedrec", "fedncf"),
    *("fcf + fedmr", "fcf + fedvlr"),
)
ABOVE_EASE = tuple(
    Claim("above-ease", dataset, METRICS, nothing_else=True)
    for dataset in ("ml-100k", "ninerec-ku", "amazon-video-10", "ml-1m", "amazon-video")
)
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "EASE, central or as a federated sum (`fedease`), is above its HR@10 on all four datasets": (
        Claim("baselines", "amazon-video-10", ("HR@10",), clear=("ease", "fedease")),
        Claim(
            "baselines", "amazon-video", ("HR@10",), clear=("ease", "fedease", "feddae", "fcf_als")
        ),
    ),
    "On Amazon-Video recency takes EASE from 14.17 to 14.61": (
        Claim("order", "amazon-video", ("HR@10",), clear=(THREE,), unclear=("ease + recency",)),
    ),
    "eleven of the twelve methods gain there significantly, all but FedRKG": (
        Claim("recency", "ml-1m", METRICS, clear=GAIN, unclear=("fedrkg",), nothing_else=True),
    ),
    "On Amazon-Video no method gains HR@10 significantly": (
        Claim("recency", "amazon-video", ("HR@10",), nothing_else=True),
        Claim("recency", "amazon-video", ("NDCG@10",), clear=EASES, nothing_else=True),
    ),
    "no federated row is significantly above EASE on any of the five datasets": ABOVE_EASE,
    "no federated row is significantly above EASE on any of five datasets": ABOVE_EASE,
    "Weights of one's own** gain nothing significantly": ABOVE_EASE,
    "The difference from EASE is significant on ML-1M": (
        Claim("order", "ml-1m", METRICS, clear=("fednext, transitions", TWO, THREE)),
        Claim("order", "ml-100k", ("HR@10",), clear=(THREE,), nothing_else=True),
    ),
    "On ML-1M it has 10.30 where EASE has 9.67": (
        Claim("order", "ml-1m", ("HR@10",), unclear=("gru4rec",)),
    ),
    "Three sums are significantly above EASE": (
        Claim("order", "amazon-video", ("HR@10",), clear=(THREE,), nothing_else=True),
        Claim(
            "order",
            "amazon-video",
            ("NDCG@10",),
            clear=(THREE, "ease + recency"),
            nothing_else=True,
        ),
    ),
    "On Amazon-Video-10 nothing is significantly above EASE": (
        Claim("order", "amazon-video-10", METRICS, nothing_else=True),
    ),
    "Cut in time, no method is significantly above EASE": (
        Claim("order", "ml-100k, cut in time", METRICS, nothing_else=True),
        Claim("order", "amazon-video-10, cut in time", METRICS, nothing_else=True),
        Claim("order", "amazon-video, cut in time", METRICS, nothing_else=True),
    ),
    "With fresh histories nothing is significantly above EASE either": (
        Claim("order", "amazon-video-10, fresh cut in time", METRICS, nothing_else=True),
        Claim("order", "amazon-video, fresh cut in time", METRICS, nothing_else=True),
    ),
    "All pairs but FedRKG's gain significantly on test, in HR@10 and NDCG@10": (
        Claim("recency", "ml-1m", METRICS, clear=GAIN, unclear=("fedrkg",), nothing_else=True),
    ),
    "Nothing gains significantly in HR@10": (
        Claim("recency", "amazon-video", ("HR@10",), nothing_else=True),
        Claim("recency", "amazon-video", ("NDCG@10",), clear=EASES, nothing_else=True),
    ),
}


@cache
def published(name: str) -> tuple[Table, Results]:
    return load_table(name), Results.read(name, RESULTS / f"table-{name}.json")


def significance(claim: Claim, metric: str, nowhere: Path) -> dict[str, bool | None]:
    """Of every row above the table's own, or of every pair with a gain: whether it is significant
    (Bonferroni over rows or pairs), None where nobody has tested it."""
    table, results = published(claim.table)
    data = next(one for one in table.datasets if one.name == claim.dataset)
    if table.gains is not None:
        return dict(_gains(table, data, metric, results, nowhere))
    found = compared(table, data, ("full", metric), results, nowhere)
    return {row.name: found.clear(row) for row in found.above}


def _gains(
    table: Table, data: Data, metric: str, results: Results, nowhere: Path
) -> Iterator[tuple[str, bool | None]]:
    pairs = [both_done(table, data, results, pair) for pair in table.pairs_of(data)]
    done = [(without, with_) for without, with_ in pairs if without]
    for without, with_ in done:
        test = paired_test(results, nowhere, metric, without, with_)
        gain = sum(two.metrics[f"full {metric}"] for two in with_)
        gain -= sum(one.metrics[f"full {metric}"] for one in without)
        clear = None if test is None else gain > 0 and len(done) * test.p < SIGNIFICANT
        yield without[0].row, clear


@pytest.mark.parametrize("said", CLAIMS)
def test_what_a_document_calls_significant_was_tested(said: str, tmp_path: Path) -> None:
    for claim in CLAIMS[said]:
        for metric in claim.metrics:
            found = significance(claim, metric, tmp_path)
            where = f"{claim.table}, {claim.dataset}, {metric}: {found}"
            assert all(found[row] is True for row in claim.clear), where
            assert all(found[row] is False for row in claim.unclear), where
            others = {row: clear for row, clear in found.items() if row not in claim.clear}
            assert not claim.nothing_else or not any(others.values()), where
            assert None not in found.values(), f"not tested: {where}"


def test_the_readme_says_how_much_of_a_table_is_near_published_values() -> None:
    """Misses stand beside hits: the share within 15 % of them is that of the results file."""
    lines = re.findall(r"(?m)^- \[table-([\w-]+)\.md\].*$", README)
    printed = [name for name in lines if name != "privacy" and load_table(name).published]
    assert {"pfedrec-main", "fedrkg-main", "fedmr-ku"} <= set(printed)
    for name in printed:
        table, results = published(name)
        near, of = share_near(table, results)["paper"]
        told = f"{near} of {of} numbers ({100 * near / of:.0f} %)"
        line = next(one for one in README.splitlines() if one.startswith(f"- [table-{name}.md]"))
        assert told in line, f"{name}: {told}"


def sentences() -> Iterator[tuple[str, str]]:
    """(file, sentence) of all that is written for readers."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for sentence in re.split(r"(?<=[.:]) (?=[A-Z*`\[])", text):
            yield path.name, sentence


def test_every_sentence_about_significance_is_held_to_its_tests() -> None:
    speaking = [(name, text) for name, text in sentences() if SPEAKS.search(text)]
    for name, text in speaking:
        assert any(known in text for known in (*CLAIMS, *METHOD)), f"{name}: {text}"
    for known in CLAIMS:
        assert any(known in text for _, text in speaking), f"nobody says any more: {known}"
