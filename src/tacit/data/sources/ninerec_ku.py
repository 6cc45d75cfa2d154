"""NineRec KU with the predefined split of FedMR and FedVLR."""

from tacit.data.sources.source import Source

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
