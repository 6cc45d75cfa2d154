"""Named sources: what is known of each published dataset, and the list of their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.data.dataset import Dataset
from tacit.data.readers.build import NO_QUIRKS, Quirks
from tacit.data.rules import DistinctRows, KCore, MinUser, PositiveRating, Rule
from tacit.errors import TacitError, shown
from tacit.names import Names

# What is known of a published dataset: whose it is, what file to get, and the papers' rules.


@dataclass(frozen=True)
class Source:
    """A named dataset. Nothing of it is shipped; its files are looked for under `folder`, or a
    function of a user's own makes it.

    `statistics` are the counts after `rules`, with repeated pairs kept, as the papers count.

    >>> few = Source("few", "Few", "few", (), "free", "its page", "a.csv", statistics={"users": 3})
    >>> few.has_time, few.statistics["users"]
    (True, 3)
    """

    name: str
    title: str
    folder: str
    rules: tuple[Rule, ...]
    licence: str
    owner_page: str  # where its owner publishes it, in words
    files_expected: str  # what to put into the folder
    statistics: Mapping[str, int]
    notes: tuple[str, ...] = ()
    has_time: bool = True  # False: a time column, if there is one, is not a time and is dropped
    quirks: Quirks = NO_QUIRKS  # what is odd in its file and accepted there
    raw_file: str | None = None  # the owner's file, where no reader knows it by its name
    raw_columns: Mapping[str, str] = field(default_factory=dict)  # its columns
    cold_split: str | None = None  # a published split of its items, beside the interactions
    load: Callable[[], Dataset] | None = None  # makes the dataset, where no file is to be read
    owner_folder: str | None = None  # what the owner's archive calls the folder

    @property
    def folders(self) -> tuple[str, ...]:
        """Where its files may lie, below a folder of datasets."""
        return (self.folder,) if self.owner_folder is None else (self.folder, self.owner_folder)


# MovieLens 100K.

ML_100K = Source(
    name="ml-100k",
    title="MovieLens 100K",
    folder="ml-100k",
    rules=(PositiveRating(),),
    licence="GroupLens: research use, no redistribution without permission",
    owner_page="GroupLens, grouplens.org, MovieLens 100K",
    files_expected="u.data and u.item",
    statistics={"users": 943, "items": 1682, "interactions": 100000},
)


# MovieLens 1M.

ML_1M = Source(
    name="ml-1m",
    title="MovieLens 1M",
    folder="ml-1m",
    rules=(PositiveRating(),),
    licence="GroupLens: research use, no redistribution without permission",
    owner_page="GroupLens, grouplens.org, MovieLens 1M",
    files_expected="ratings.dat and movies.dat",
    statistics={"users": 6040, "items": 3706, "interactions": 1000209},
    notes=(
        "Copies without ratings may hold each user's chronological position in place of the time: "
        "a user's last item is then known up to ties, and a split by global time means nothing.",
    ),
)


# MovieLens latest-small, 5-core.

# A copy in circulation has its owner's address pasted into the middle of one time.
_DAMAGED = "84743496 https://files.grouplens.org/datasets/movielens/ml-latest-small1"

ML_LATEST_SMALL = Source(
    name="ml-latest-small",
    title="MovieLens latest-small, 5-core",
    folder="ml-latest-small",
    rules=(KCore(5),),
    licence="GroupLens: research use, no redistribution without permission",
    owner_page="GroupLens, grouplens.org, MovieLens Latest Datasets (small)",
    files_expected="ratings.csv and movies.csv",
    statistics={"users": 610, "items": 3650, "interactions": 90274},
    quirks=Quirks(repaired_times={_DAMAGED: "847434961"}),
    notes=(
        "In one copy the time of user 5 and film 39 is damaged; it is read as 847434961, the "
        "number that its digits make.",
        "Item tags, where a copy has them, were given by users, test users among them: features "
        "made from tags may leak test information.",
    ),
)


# Amazon Instant Video reviews, with the user filters of PFedRec (5) and FedRKG (10).

AMAZON_VIDEO = Source(
    name="amazon-video",
    title="Amazon Instant Video, users with at least 5 rows",
    folder="amazon-video-pfedrec",
    rules=(PositiveRating(), MinUser(5)),
    licence="Amazon review data: research use",
    owner_page="Julian McAuley's group at UC San Diego, Amazon review data, Amazon Instant Video",
    files_expected="ratings_Amazon_Instant_Video.csv (user, item, rating, timestamp; no header)",
    statistics={"users": 8072, "items": 11830, "interactions": 63836},
    raw_file="ratings_Amazon_Instant_Video.csv",
    raw_columns={"user": "1", "item": "2", "value": "3", "time": "4"},
    notes=("Times have day precision, so many users have several latest items.",),
)

AMAZON_VIDEO_10 = replace(
    AMAZON_VIDEO,
    name="amazon-video-10",
    title="Amazon Instant Video, users with at least 10 rows",
    rules=(PositiveRating(), MinUser(10)),
    statistics={"users": 1372, "items": 7957, "interactions": 23181},
)


# FilmTrust ratings, users with at least 10.

FILMTRUST = Source(
    name="filmtrust",
    title="FilmTrust, users with at least 10 rows",
    folder="filmtrust",
    rules=(PositiveRating(), MinUser(10)),
    licence="public research dataset; its terms are not stated",
    owner_page="LibRec, the FilmTrust dataset of Guo, Zhang and Yorke-Smith",
    files_expected="ratings.txt (user, item, rating; separated by blanks, no header)",
    statistics={"users": 1002, "items": 2042, "interactions": 33372},
    has_time=False,
    raw_file="ratings.txt",
    raw_columns={"user": "1", "item": "2", "value": "3"},
    notes=(
        "FilmTrust has no times: choose what 'last' means (random, row or item_appearance); "
        "results under different choices are not comparable.",
    ),
)


# Last.fm 2K of HetRec 2011: tag assignments, filtered as PFedRec (5) and FedRKG (10) do.

LASTFM_2K = Source(
    name="lastfm-2k",
    title="Last.fm 2K tag assignments, users with at least 5 rows",
    folder="lastfm-2k",
    rules=(MinUser(5),),
    licence="HetRec 2011: non-commercial research, cite HetRec and Last.fm",
    owner_page="GroupLens, grouplens.org, HetRec 2011, Last.FM dataset",
    files_expected="user_taggedartists-timestamps.dat",
    statistics={"users": 1600, "items": 12454, "interactions": 185650},
    quirks=Quirks(negative_times=True),
    raw_file="user_taggedartists-timestamps.dat",
    raw_columns={"user": "userID", "item": "artistID", "time": "timestamp"},
    notes=(
        "These are tag assignments: a (user, artist) pair repeats once per tag. With repeats kept, "
        "many test artists are already among the train artists.",
        "Times have day precision; four rows of the published file are dated before 1970.",
        "Features made from tags leak test information: tags come from all interactions.",
    ),
)

LASTFM_2K_10 = replace(
    LASTFM_2K,
    name="lastfm-2k-10",
    title="Last.fm 2K tag assignments, users with at least 10 rows",
    rules=(MinUser(10),),
    statistics={"users": 1269, "items": 12322, "interactions": 183415},
)


# CiteULike-a: who keeps which article.

CITEULIKE_A = Source(
    name="citeulike-a",
    title="CiteULike-a",
    folder="citeulike-a",
    rules=(),
    licence="research dataset; cite Wang, Chen and Li (CTRSR, IJCAI 2013)",
    owner_page="Hao Wang's citeulike-a repository, github.com/js05212/citeulike-a",
    files_expected="users.dat",
    statistics={"users": 5551, "items": 16980, "interactions": 204986},
    has_time=False,
    cold_split="ifedrec_cold_split.parquet",
    notes=(
        "CiteULike-a has no times: choose what 'last' means (random or row).",
        "Tags were given by users: features made from tags may leak test information.",
    ),
)


# NineRec KU with the predefined split of FedMR and FedVLR.

NINEREC_KU = Source(
    name="ninerec-ku",
    title="NineRec KU, predefined split",
    folder="ninerec-ku",
    rules=(),
    licence="NineRec: research use; offering modified copies is not allowed",
    owner_page="Westlake Representation Learning Lab, github.com/westlake-repl/NineRec",
    files_expected=(
        "interactions.parquet with split_label, image_feat.npy, text_feat.npy and item_ids.txt, or "
        "an MMRec folder (KU.inter with x_label)"
    ),
    statistics={"users": 204, "items": 560, "interactions": 3489},
    notes=(
        "Five rows repeat a (user, item) pair; the papers count 3488 rows, this copy 3489.",
        "Features come with the data; the encoder is not named.",
    ),
)


# NineRec's own files: as MDiffFR uses them (all rows), and as FedMR and FedVLR do (a 5-core).


def _ninerec(name: str, title: str, published: str, counts: tuple[int, int, int]) -> Source:
    return Source(
        name=name,
        title=f"NineRec {title}, as published",
        folder=name,
        rules=(),
        licence=NINEREC_KU.licence,
        owner_page=f"{NINEREC_KU.owner_page}, downstream datasets",
        files_expected=f"{published}_pair.csv and {published}_item.csv",
        statistics=dict(zip(("users", "items", "interactions"), counts, strict=True)),
        owner_folder=published,
        notes=(
            "This reader was made from the published description and from scripts that read these "
            "files, and was not tried on the files themselves; counts are those of the papers.",
        ),
    )


def _core_of_5(source: Source, counts: tuple[int, int, int]) -> Source:
    """As the code of FedMR and FedVLR filters: equal rows once, then a 5-core of both sides."""
    return replace(
        source,
        name=f"{source.name.removesuffix('-raw')}-5",
        title=f"{source.title}, then a 5-core",
        rules=(DistinctRows(), KCore(5)),
        statistics=dict(zip(("users", "items", "interactions"), counts, strict=True)),
    )


NINEREC_KU_RAW = _ninerec("ninerec-ku-raw", "KU", "KU", (2034, 5370, 18519))
NINEREC_FOOD = _ninerec("ninerec-food", "Food", "Bili_Food", (6549, 1579, 39740))
NINEREC_DANCE = _ninerec("ninerec-dance", "Dance", "Bili_Dance", (10715, 2307, 83392))
NINEREC_MOVIE = _ninerec("ninerec-movie", "Movie", "Bili_Movie", (16525, 3509, 115576))
NINEREC_KU_5 = _core_of_5(NINEREC_KU_RAW, (204, 560, 3489))
NINEREC_FOOD_5 = _core_of_5(NINEREC_FOOD, (5990, 1125, 36482))
NINEREC_DANCE_5 = _core_of_5(NINEREC_DANCE, (10231, 1676, 80086))
NINEREC_MOVIE_5 = _core_of_5(NINEREC_MOVIE, (15908, 2528, 111091))


# Amazon reviews of 2023 as FedVLR uses them, and gift cards of 2018 as published.

AMAZON_BEAUTY = Source(
    name="amazon-beauty",
    title="Amazon All Beauty 2023, 5-core",
    folder="amazon-beauty",
    rules=(DistinctRows(), KCore(5)),
    licence="Amazon review data: research use",
    owner_page="Julian McAuley's group at UC San Diego, Amazon Reviews 2023, All_Beauty",
    files_expected="All_Beauty.jsonl and meta_All_Beauty.jsonl (also .gz)",
    statistics={"users": 253, "items": 356, "interactions": 2535},
    notes=(
        "FedVLR does not say whether an item is a product (parent_asin) or a variant of it (asin); "
        "here it is the product. This was not tried on the published file.",
    ),
)

AMAZON_CARDS = replace(
    AMAZON_BEAUTY,
    name="amazon-cards",
    title="Amazon Gift Cards 2023, 5-core",
    folder="amazon-cards",
    owner_page="Julian McAuley's group at UC San Diego, Amazon Reviews 2023, Gift_Cards",
    files_expected="Gift_Cards.jsonl and meta_Gift_Cards.jsonl (also .gz)",
    statistics={"users": 377, "items": 129, "interactions": 2429},
)

AMAZON_CARDS_2018 = Source(
    name="amazon-cards-2018",
    title="Amazon Gift Cards 2018, 5-core as published",
    folder="amazon-giftcards-2018-5core",
    rules=(),
    licence="Amazon review data: research use",
    owner_page="Julian McAuley's group at UC San Diego, Amazon review data (2018), Gift Cards",
    files_expected="Gift_Cards_5.json and meta_Gift_Cards.json (also .gz)",
    statistics={"users": 458, "items": 148, "interactions": 2972},
    notes=("Times have day precision, so many users have several latest items.",),
)


# The names that `--data` takes besides that of the synthetic dataset. A user's module adds to them:
# a source, or a function that returns a dataset.

PLANTED = "planted"


def _accept(name: str, source: Any) -> Source:
    if name == PLANTED:
        raise TacitError(f"A dataset named {name!r} is there already; choose another name.")
    if callable(source):
        title = (inspect.getdoc(source) or name).splitlines()[0].rstrip(".")
        return Source(
            name=name,
            title=title,
            folder=name,
            rules=(),
            licence="that of its owner",
            owner_page="the module that registers it",
            files_expected="nothing",
            statistics={},
            load=source,
        )
    if not isinstance(source, Source) or source.name != name:
        raise TacitError(
            f"The dataset {name!r} is {shown(source)}; give a function that returns a Dataset, or "
            "a Source of that name."
        )
    return source


def _origin(source: Source) -> tuple[str, str] | None:
    loader = source.load
    return None if loader is None else (loader.__module__, loader.__qualname__)


SOURCES: Names[Source] = Names(
    "dataset",
    "tacit.datasets",
    {},
    _accept,
    _origin,
    values={
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
            NINEREC_KU_RAW,
            NINEREC_KU_5,
            NINEREC_FOOD,
            NINEREC_FOOD_5,
            NINEREC_DANCE,
            NINEREC_DANCE_5,
            NINEREC_MOVIE,
            NINEREC_MOVIE_5,
            AMAZON_BEAUTY,
            AMAZON_CARDS,
            AMAZON_CARDS_2018,
        )
    },
)
