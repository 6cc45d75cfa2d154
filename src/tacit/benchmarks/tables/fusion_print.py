"""What FedMR and FedVLR print for KU and MovieLens, HR@50 and NDCG@50 in percent, one seed."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.benchmarks.tables.definition import Metric, Printed
from tacit.benchmarks.tables.fusion_rows import GAIN, HIT

Pair = tuple[float, float]  # (HR@50, NDCG@50)

# FedVLR's Table 2, and for sum and gate its table of single operators; "+ fedmr" is FedMR's Table 2
KU: dict[str, Pair] = {
    "fedavg": (11.27, 5.62),
    "fedavg + MLP": (39.22, 12.40),
    "fedavg + sum": (18.14, 5.70),
    "fedavg + gate": (51.39, 13.97),
    "fedavg + fedmr": (51.47, 14.91),
    "fedavg + fedvlr": (54.90, 16.04),
    "fedvbpr": (51.47, 14.91),
    "fcf": (22.55, 6.43),
    "fcf + MLP": (36.76, 12.40),
    "fcf + sum": (22.55, 6.60),
    "fcf + gate": (27.94, 7.41),
    "fcf + fedmr": (55.39, 15.97),
    "fcf + fedvlr": (55.39, 15.97),
    "fedneumf": (11.76, 2.49),
    "fedneumf + MLP": (28.43, 6.91),
    "fedneumf + sum": (23.53, 5.29),
    "fedneumf + gate": (16.67, 4.43),
    "fedneumf + fedmr": (19.61, 6.09),
    "fedneumf + fedvlr": (43.63, 12.18),
    "pfedrec": (6.37, 2.30),
    "pfedrec + MLP": (39.22, 8.52),
    "pfedrec + sum": (19.12, 3.90),
    "pfedrec + gate": (12.75, 2.83),
    "pfedrec + fedmr": (21.57, 6.16),
    "pfedrec + fedvlr": (45.59, 15.05),
    "fedrap": (47.06, 10.86),
    "fedrap + MLP": (48.53, 12.12),
    "fedrap + sum": (23.53, 6.39),
    "fedrap + gate": (23.04, 6.04),
    "fedrap + fedmr": (48.24, 13.05),
    "fedrap + fedvlr": (48.24, 13.05),
}
# FedVLR's Table 2, its column ML
ML: dict[str, Pair] = {
    "fcf": (11.64, 3.72),
    "fcf + fedvlr": (13.28, 3.91),
    "pfedrec": (11.31, 3.67),
    "pfedrec + fedvlr": (12.30, 3.81),
}
# FedMR's Tables 3, 4 and 6, which FedVLR prints again
ABLATIONS: dict[str, Pair] = {
    "fcf + fedmr": (55.39, 15.97),
    "fcf + no image": (28.43, 7.48),
    "fcf + noise for image": (28.92, 7.83),
    "fcf + no text": (42.16, 9.65),
    "fcf + noise for text": (24.51, 6.29),
    "fcf + no id": (23.53, 5.78),
    "fcf + noise on uploads (no guarantee)": (53.78, 14.02),
    "pfedrec + fedmr": (21.57, 6.16),
    "pfedrec + no image": (19.90, 4.69),
    "pfedrec + noise for image": (16.47, 4.68),
    "pfedrec + no text": (19.41, 5.37),
    "pfedrec + noise for text": (16.96, 4.45),
    "pfedrec + no id": (17.94, 4.73),
    "pfedrec + noise on uploads (no guarantee)": (19.65, 5.86),
}


def printed(data: str, numbers: Mapping[str, Pair]) -> dict[tuple[str, str, Metric], Printed]:
    """Printed numbers of a dataset by row and metric.

    >>> printed("ninerec-ku", KU)["fcf + fedmr", "ninerec-ku", HIT].text
    '55.39'
    """
    cells: dict[tuple[str, str, Metric], Printed] = {}
    for row, (hit, gain) in numbers.items():
        cells[row, data, HIT] = Printed(hit)
        cells[row, data, GAIN] = Printed(gain)
    return cells
