"""CiteULike-a: who keeps which article."""

from tacit.data.sources.source import Source

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
