"""Amazon Instant Video reviews, with the user filters of PFedRec (5) and FedRKG (10)."""

from dataclasses import replace

from tacit.data.rules import MinUser, PositiveRating
from tacit.data.sources.source import Source

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
