"""Last.fm 2K of HetRec 2011: tag assignments, filtered as PFedRec (5) and FedRKG (10) do."""

from dataclasses import replace

from tacit.data.readers.quirks import Quirks
from tacit.data.rules import MinUser
from tacit.data.sources.source import Source

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
