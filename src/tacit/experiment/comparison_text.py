"""A comparison in words: sentences, and a table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.evaluation.significance import Interval, Spread
from tacit.experiment.amounts import DASH, bytes_text, metric_text
from tacit.experiment.comparison import Comparison


def mark(protocol: str, clean: bool) -> str:
    """What stands beside numbers that are not clean; nothing beside clean ones.

    >>> mark("pfedrec", False)
    '[pfedrec protocol: not comparable with clean]'
    """
    return "" if clean else f"[{protocol} protocol: not comparable with clean]"


def difference_text(interval: Interval | None) -> str:
    """The difference to the tested-against method, with its interval.

    >>> difference_text(Interval(0.01, 0.002, 0.018, p_value=0.03))
    '+0.0100 [+0.0020, +0.0180]'
    """
    if interval is None:
        return DASH
    return f"{interval.difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"


def p_text(value: float | None) -> str:
    """
    >>> p_text(0.0002), p_text(0.031), p_text(None)
    ('< 0.001', '0.031', '–')
    """
    if value is None:
        return DASH
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def spread_text(spread: Spread) -> str:
    """The standard deviation over seeds, and of how many.

    >>> spread_text(Spread.of([0.1, 0.3]))
    '±0.1414 (2)'
    """
    deviation = spread.deviation
    return DASH if deviation is None else f"±{deviation:.4f} ({spread.seeds})"


def sentences(comparison: Comparison) -> list[str]:
    """What the tests say, one sentence for each method.

    >>> from tacit.experiment.comparison import Row
    >>> test = Interval(0.01, -0.002, 0.022, 0.2)
    >>> row = Row("a", 0.2, Spread(0.2, None, 1), {}, test, 0.2, (), (), {}, (), "no guarantee")
    >>> sentences(Comparison("HR@10", "few", "clean", True, "by time", "b", 9, (row,), {}, ()))
    ['a and b cannot be told apart in HR@10 (p = 0.200 after Holm).']
    """
    said = []
    for row in comparison.rows:
        if row.difference is None or row.p_holm is None:
            continue
        against, amount = comparison.against, abs(row.difference.difference)
        if row.p_holm < 0.05:
            verb = "is above" if row.difference.difference > 0 else "is below"
            said.append(
                f"{row.name} {verb} {against} by {metric_text(amount)} in {comparison.metric} "
                f"(p {_p_words(row.p_holm)} after Holm)."
            )
        else:
            said.append(
                f"{row.name} and {against} cannot be told apart in {comparison.metric} "
                f"(p {_p_words(row.p_holm)} after Holm)."
            )
    return said


def _p_words(value: float) -> str:
    text = p_text(value)
    return text if text.startswith("<") else f"= {text}"


def other_columns(metric: str) -> dict[str, tuple[str, str]]:
    """Columns beside the tested metric, by ranking and name; none is there twice.

    >>> list(other_columns("NDCG@10")), list(other_columns("MRR@5"))[:2]
    (['HR@10, full', 'HR@10, 99 sampled'], ['HR@10, full', 'NDCG@10, full'])
    """
    columns = {
        "HR@10, full": ("full", "HR@10"),
        "NDCG@10, full": ("full", "NDCG@10"),
        "HR@10, 99 sampled": ("sampled99", "HR@10"),
    }
    return {title: at for title, at in columns.items() if at != ("full", metric)}


def as_markdown(comparison: Comparison) -> str:
    """The file `compare.md`.

    >>> as_markdown(Comparison("HR@10", "few", "clean", True, "by time", "b", 9, (), {}, ()))[:27]
    '# few, protocol clean, spli'
    """
    metric, against = comparison.metric, comparison.against
    others = other_columns(metric)
    header = [
        "Method",
        f"{metric}, full",
        "Spread over seeds",
        f"Against {against} (95 %)",
        "p (Holm)",
        *others,
        "Bytes up per client and round",
        "Privacy",
    ]
    body = [
        [
            row.name,
            metric_text(row.value),
            spread_text(row.spread),
            difference_text(row.difference),
            p_text(row.p_holm),
            *(metric_text(row.metrics[kind][name]) for kind, name in others.values()),
            bytes_text(row.cost["bytes_up"]),
            row.privacy,
        ]
        for row in comparison.rows
    ]
    for name, values in comparison.reference.items():
        body.append(
            [
                f"*{name}* (reference)",
                metric_text(values["full"][metric]),
                *[DASH] * 3,
                *(metric_text(values[kind][name]) for kind, name in others.values()),
                *[DASH] * 2,
            ]
        )
    protocol = f"protocol {comparison.protocol}, split {comparison.split}"
    title = f"# {comparison.dataset}, {protocol}"
    warning = mark(comparison.protocol, comparison.clean)
    lines = [title, "", *([f"**{warning}**", ""] if warning else [])]
    lines += [_line(header), _line(["---"] + ["---:"] * (len(header) - 1)), *map(_line, body), ""]
    lines += [
        f"{comparison.users} users. Differences are means over users of {metric} averaged over "
        "seeds, with a paired bootstrap over users; the spread is the standard deviation over "
        "seeds (number of seeds in brackets).",
        "",
        *(f"- {sentence}" for sentence in (*sentences(comparison), *comparison.notes)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
