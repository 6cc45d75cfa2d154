"""MovieLens 1M."""

from tacit.data.rules import PositiveRating
from tacit.data.sources.source import Source

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
