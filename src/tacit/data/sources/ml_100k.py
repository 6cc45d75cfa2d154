"""MovieLens 100K."""

from tacit.data.rules import PositiveRating
from tacit.data.sources.source import Source

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
