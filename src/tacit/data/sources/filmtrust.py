"""FilmTrust ratings, users with at least 10."""

from tacit.data.rules import MinUser, PositiveRating
from tacit.data.sources.source import Source

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
