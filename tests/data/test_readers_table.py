"""CSV, TSV and Parquet with named or usual columns, and frames in memory."""

import datetime
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tacit.data.load import load
from tacit.data.readers import from_frame, read_path
from tacit.errors import TacitError

ROLES = {"user": "who", "item": "what", "time": "when", "value": "stars", "label": "part"}
TABLE = pl.DataFrame(
    {"part": [0, 2], "when": [9, 8], "what": ["a", "b"], "who": ["x", "x"], "stars": [1.5, 2.0]}
)


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "parquet", "semicolon.csv"])
def test_named_columns(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"plays.{kind}"
    if kind == "parquet":
        TABLE.write_parquet(file)
    else:
        mark = {"tsv": "\t", "semicolon.csv": ";"}.get(kind, ",")
        text = TABLE.write_csv(separator=mark).encode()
        file.write_bytes(gzip.compress(text) if kind.endswith("gz") else b"\xef\xbb\xbf" + text)
    dataset = read_path(file, ROLES)
    data = dataset.interactions
    assert dataset.name == "plays"
    assert (data.users, data.items) == (("x",), ("a", "b"))
    assert data.time_N is not None
    assert data.value_N is not None
    assert data.label_N is not None
    assert data.time_N.tolist() == [9, 8]
    assert data.value_N.tolist() == [1.5, 2.0]
    assert data.label_N.tolist() == [0, 2]


@pytest.mark.parametrize(
    "header", ["user_id,item_id,timestamp,rating", "userId,movieId,ts,score", "uid,iid,time,value"]
)
def test_usual_names(tmp_path: Path, header: str) -> None:
    file = tmp_path / "any.csv"
    file.write_text(f"{header}\r\n1,2,3,4\r\n\r\n5,6,7,8\r\n\r\n")
    data = read_path(file).interactions
    assert (data.users, data.items) == (("1", "5"), ("2", "6"))
    assert data.time_N is not None
    assert data.value_N is not None
    assert (data.time_N.tolist(), data.value_N.tolist()) == ([3, 7], [4, 8])


def test_named_columns_are_all_that_is_read(tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("user_id,song,timestamp\n1,2,3\n")
    assert read_path(file, {"item": "song"}).interactions.time_N is None


def test_positions_name_columns_of_a_file_without_header(tmp_path: Path) -> None:
    file = tmp_path / "ratings.txt"
    file.write_text("1 2 3.5\n1 3 4\n")
    data = read_path(file, {"user": "1", "item": "2", "value": "3"}).interactions
    assert data.items == ("2", "3")
    assert data.value_N is not None
    assert data.value_N.tolist() == [3.5, 4.0]


def test_positions_never_eat_a_header(tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("user_id,item_id\n1,2\n")
    with pytest.raises(TacitError, match="no column '1'"):
        read_path(file, {"user": "1", "item": "2"})


def test_dates_become_microseconds(tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("user,item,time\na,x,1970-01-02\na,y,1970-01-01\n")
    time_N = read_path(file).interactions.time_N
    assert time_N is not None
    assert time_N.tolist() == [86_400_000_000, 0]
    file.write_text("user,item,time\na,x,1970-01-01T00:00:02.5\na,y,1970-01-01T00:00:01\n")
    time_N = read_path(file).interactions.time_N
    assert time_N is not None
    assert time_N.tolist() == [2_500_000, 1_000_000]


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:00:02.5Z",
        "1970-01-01T02:00:02.500000+02:00",
        "1970-01-01 00:00:02.5",
        "1969-12-31 19:00:02.5-0500",
        "1970-01-01 00:00:02.5 UTC",
        "1970-01-01T00:00:02.500000999z",
        "1970-01-01 05:30:02.5 +05:30",
    ],
)
def test_times_with_zones_and_fractions(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.csv"
    zone = text[19:].lstrip(".0123456789")
    file.write_text(f"user,item,time\na,x,{text}\na,y,1970-01-01 23:00:01{zone}\n")
    time_N = read_path(file).interactions.time_N
    assert time_N is not None
    assert time_N[0] == 2_500_000
    assert time_N[1] % 1_000_000 == 0


def test_days_minutes_and_seconds_stand_beside_each_other(tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text(
        "user,item,time\na,x,1970-01-02\na,y,1970-01-01 00:01\na,z,1970-01-01T00:00:01\n"
    )
    time_N = read_path(file).interactions.time_N
    assert time_N is not None
    assert time_N.tolist() == [86_400_000_000, 60_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (
            ["2024-05-01T12:00:00Z", "2024-05-01T12:00:00"],
            "a zone and without, in data rows 2 and 1",
        ),
        (
            ["2024-05-01", "2024-05-01", "2024-05-01T12:00+02:00"],
            "in data rows 3 and 1; write both",
        ),
        (
            ["2024-05-01T12:00:00Z", "1714564800"],
            "'1714564800', which is not a date, in data row 2",
        ),
        (
            ["1714564800", "2024-05-01T12:00:00Z"],
            "'1714564800', which is not a date, in data row 1",
        ),
        (["2024-05-01T12:00:00Z", ""], "is empty in data row 2"),
        (["2024-05-01", "2024-02-30"], "'2024-02-30', which is not a date, in data row 2"),
        (["5", "yesterday"], "'yesterday', which is not a number or a date such as 2024-01-31, in"),
        (["5", "9" * 5000], f"is {'9' * 60}, which is not finite, in data row 2"),
    ],
)
def test_times_that_cannot_be_read_name_their_row(
    tmp_path: Path, times: list[str], words: str
) -> None:
    file = tmp_path / "any.csv"
    lines = (f"a,{row},{time}" for row, time in enumerate(times))
    file.write_text("user,item,time\n" + "\n".join(lines) + "\n")
    with pytest.raises(TacitError) as caught:
        read_path(file)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_moments_of_a_frame_count_from_the_same_moment() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moments = [datetime.datetime(1970, 1, 1, 2, 0, second, tzinfo=zone) for second in (2, 1)]
    frame = pl.DataFrame({"who": [1, 2], "what": ["a", "b"], "when": moments})
    time_N = from_frame(frame, user="who", item="what", time="when").interactions.time_N
    assert time_N is not None
    assert time_N.tolist() == [2_000_000, 1_000_000]


def test_nanosecond_times_stay_exact(tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("user,item,time\na,x,1700000000000000001\na,y,1700000000000000002\n")
    time_N = read_path(file).interactions.time_N
    assert time_N is not None
    assert time_N.tolist() == [1700000000000000001, 1700000000000000002]


def test_order_of_first_appearance(tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("user,item\nz,9\na,10\nz,1\na,9\n")
    data = read_path(file).interactions
    assert (data.users, data.items) == (("z", "a"), ("9", "10", "1"))
    assert data.user_N.tolist() == [0, 1, 0, 1]
    assert data.item_N.tolist() == [0, 1, 2, 0]


def frames() -> list[object]:
    moments = [datetime.datetime(1970, 1, 1, 0, 0, second) for second in (2, 1)]
    columns = {"who": [1, 2], "what": ["a", "b"], "when": moments, "extra": [[1], None]}
    return [
        pl.DataFrame(columns),
        pl.DataFrame(columns).lazy(),
        pd.DataFrame(columns),
        columns,
    ]


@pytest.mark.parametrize("frame", frames(), ids=["polars", "lazy", "pandas", "dictionary"])
def test_from_frame(frame: object) -> None:
    dataset = from_frame(frame, user="who", item="what", time="when", name="mine")
    data = dataset.interactions
    assert (dataset.name, data.users, data.items) == ("mine", ("1", "2"), ("a", "b"))
    assert data.time_N is not None
    assert data.time_N.tolist() == [2_000_000, 1_000_000]


def test_pandas_whole_number_ids_survive_floats() -> None:
    frame = pd.DataFrame({"u": [1.0, 2.0], "i": pd.Categorical(["b", "a"])})
    data = from_frame(frame, user="u", item="i").interactions
    assert (data.users, data.items) == (("1", "2"), ("b", "a"))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_pandas_missing_id(missing: object) -> None:
    frame = pd.DataFrame({"u": ["a", missing], "i": [1, 2]})
    with pytest.raises(TacitError, match="Data row 2 of 'frame' has no id in column 'u'"):
        from_frame(frame, user="u", item="i")


def test_frame_without_columns() -> None:
    with pytest.raises(TacitError, match="A list has no named columns"):
        from_frame([1, 2], user="u", item="i")


def test_frame_with_a_wrong_name() -> None:
    with pytest.raises(TacitError, match="no column 'usr'; did you mean 'user'"):
        from_frame(pd.DataFrame({"user": [1], "item": [2]}), user="usr", item="item")


def test_labels_may_be_words(tmp_path: Path) -> None:
    file = tmp_path / "plays.csv"
    file.write_text("user,item,split\na,x,train\na,y, Valid\na,z,test\n", encoding="utf-8")
    columns = {"user": "user", "item": "item", "label": "split"}
    label_N = load(str(file), columns=columns).interactions.label_N
    assert label_N is not None
    assert label_N.tolist() == [0, 1, 2]
    file.write_text("user,item,split\na,x,train\na,y,maybe\n", encoding="utf-8")
    with pytest.raises(TacitError, match=r"'split' of .*plays\.csv"):
        load(str(file), columns=columns)
