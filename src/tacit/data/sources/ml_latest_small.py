"""MovieLens latest-small, 5-core."""

from tacit.data.readers.quirks import Quirks
from tacit.data.rules import KCore
from tacit.data.sources.source import Source

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
