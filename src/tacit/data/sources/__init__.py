"""Named sources: one file each, and one visible dictionary."""

from __future__ import annotations

from tacit.data.sources.amazon_video import AMAZON_VIDEO, AMAZON_VIDEO_10
from tacit.data.sources.citeulike_a import CITEULIKE_A
from tacit.data.sources.filmtrust import FILMTRUST
from tacit.data.sources.lastfm_2k import LASTFM_2K, LASTFM_2K_10
from tacit.data.sources.ml_1m import ML_1M
from tacit.data.sources.ml_100k import ML_100K
from tacit.data.sources.ml_latest_small import ML_LATEST_SMALL
from tacit.data.sources.ninerec_ku import NINEREC_KU
from tacit.data.sources.source import Source

__all__ = ["SOURCES", "Source"]

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        ML_100K,
        ML_1M,
        ML_LATEST_SMALL,
        AMAZON_VIDEO,
        AMAZON_VIDEO_10,
        FILMTRUST,
        LASTFM_2K,
        LASTFM_2K_10,
        CITEULIKE_A,
        NINEREC_KU,
    )
}
