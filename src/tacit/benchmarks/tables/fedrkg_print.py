"""What FedRKG prints: its Tables 1 and 3, full ranking, percent, means of five without spread."""

from __future__ import annotations

from tacit.benchmarks.tables.definition import Metric, Printed

HIT: Metric = ("full", "HR@10")  # R@10: with one held-out item the two are one
GAIN: Metric = ("full", "NDCG@10")

VIDEO, FILMTRUST, LASTFM, ML_1M = "amazon-video-10", "filmtrust", "lastfm-2k-10", "ml-1m"
_DATA = (VIDEO, FILMTRUST, LASTFM, ML_1M)

# (N@10, R@10) on each of _DATA
TABLE_1: dict[str, tuple[tuple[float, float], ...]] = {
    "mf": ((3.35, 5.99), (28.71, 38.40), (2.57, 4.45), (4.55, 9.27)),
    "neumf": ((2.78, 5.31), (30.85, 40.78), (2.41, 4.33), (4.88, 9.67)),
    "fedmf": ((3.93, 6.59), (21.78, 31.05), (2.04, 3.77), (4.65, 9.29)),
    "fedncf": ((1.23, 2.85), (21.08, 28.96), (1.47, 2.87), (2.25, 4.40)),
    "pfedrec": ((4.61, 6.58), (35.23, 41.03), (1.63, 3.12), (26.34, 29.95)),
    "gpfedrec": ((1.89, 3.56), (29.62, 40.96), (1.37, 2.82), (22.29, 29.39)),
    "cofedrec": ((3.53, 5.85), (29.23, 41.52), (2.64, 4.21), (9.39, 14.96)),
    "fedrap": ((8.82, 14.58), (92.99, 97.39), (17.12, 20.17), (76.97, 87.37)),
    "feddae": ((2.77, 5.24), (22.22, 35.56), (17.81, 25.74), (3.17, 5.75)),
    "fedrkg": ((17.50, 26.08), (99.26, 100.0), (34.08, 35.07), (100.0, 100.0)),
}
TABLE_3: dict[str, tuple[tuple[float, float], ...]] = {
    "fedmf": ((3.04, 5.61), (26.56, 33.82), (1.79, 3.39), (4.65, 9.34)),
    "fedmf + fedrkg": ((16.80, 25.51), (99.22, 100.0), (34.23, 35.07), (100.0, 100.0)),
    "fedncf": ((1.16, 2.62), (20.78, 28.20), (1.95, 3.70), (2.39, 4.65)),
    "fedncf + fedrkg": ((5.27, 8.97), (97.18, 99.10), (26.28, 28.84), (99.91, 100.0)),
    "pfedrec": ((3.78, 5.69), (35.34, 41.73), (1.80, 3.62), (25.78, 29.24)),
    "pfedrec + fedrkg": ((16.28, 24.78), (97.97, 99.51), (31.70, 33.81), (99.73, 100.0)),
}


def printed(
    table: dict[str, tuple[tuple[float, float], ...]],
) -> dict[tuple[str, str, Metric], Printed]:
    """A printed table by row, dataset and metric.

    >>> printed(TABLE_1)["fedrkg", "filmtrust", HIT].text
    '100.00'
    """
    cells: dict[tuple[str, str, Metric], Printed] = {}
    for row, numbers in table.items():
        for data, (gain, hit) in zip(_DATA, numbers, strict=True):
            cells[row, data, HIT] = Printed(hit)
            cells[row, data, GAIN] = Printed(gain)
    return cells
