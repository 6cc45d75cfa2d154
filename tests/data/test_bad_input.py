"""What people get wrong: one clear sentence each, and never a traceback."""

import contextlib
import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.readers import from_frame, parse_columns, read_path
from tacit.errors import TacitError


def message(path: Path, columns: dict[str, str] | None = None) -> str:
    with pytest.raises(TacitError) as caught:
        read_path(path, columns)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


def written(folder: Path, content: str | bytes, name: str = "bad.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_missing_file(tmp_path: Path) -> None:
    assert "There is no file or folder at" in message(tmp_path / "nothing.csv")


@pytest.mark.parametrize("name", ["bad.csv", "bad.tsv", "u.data", "ratings.dat", "KU_pair.csv"])
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_file(tmp_path: Path, name: str, content: str) -> None:
    assert "is empty" in message(written(tmp_path, content, name))


def test_empty_parquet(tmp_path: Path) -> None:
    assert "is empty (0 bytes)" in message(written(tmp_path, b"", "bad.parquet"))


def test_header_only(tmp_path: Path) -> None:
    assert "column names but no rows" in message(written(tmp_path, "user_id,item_id\n"))


def test_parquet_without_rows(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": [], "item_id": []}).write_parquet(tmp_path / "interactions.parquet")
    assert "column names but no rows" in message(tmp_path)


def test_binary_named_csv(tmp_path: Path) -> None:
    assert "is not a text file" in message(written(tmp_path, bytes(range(256)) * 4))


def test_latin_1_named_csv(tmp_path: Path) -> None:
    text = "user_id,item_id\n1,café\n".encode("latin-1")
    assert "it is not UTF-8 text" in message(written(tmp_path, text))


def test_text_named_parquet(tmp_path: Path) -> None:
    assert "is not a Parquet file" in message(written(tmp_path, "user,item\n1,2\n", "bad.parquet"))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_cut_off_parquet(tmp_path: Path, share: float) -> None:
    whole = tmp_path / "whole.parquet"
    pl.DataFrame({"user_id": range(500), "item_id": range(500)}).write_parquet(whole)
    data = whole.read_bytes()
    bad = written(tmp_path, data[: int(len(data) * share)], "bad.parquet")
    assert "damaged or cut-off Parquet" in message(bad)


def test_cut_off_gzip(tmp_path: Path) -> None:
    data = gzip.compress(b"user_id,item_id\n1,2\n" * 100)
    assert "damaged or cut-off gzip" in message(written(tmp_path, data[:-9], "bad.csv.gz"))


def test_features_given_as_data(tmp_path: Path) -> None:
    np.save(tmp_path / "text_feat.npy", np.ones((2, 2)))
    assert "is a feature matrix, not interactions" in message(tmp_path / "text_feat.npy")


def test_zip_given_as_data(tmp_path: Path) -> None:
    assert "is a zip archive" in message(written(tmp_path, b"PK\x03\x04rest", "ml-100k.zip"))


def test_unknown_format_and_folder(tmp_path: Path) -> None:
    assert "is in no known format" in message(written(tmp_path, "hello", "notes.xyz"))
    assert "in no known layout: it holds notes.xyz" in message(tmp_path)


def test_absent_column(tmp_path: Path) -> None:
    file = written(tmp_path, "client,product,moment\n1,2,3\n")
    assert "has no column 'clent'; did you mean 'client'?" in message(
        file, {"user": "clent", "item": "product"}
    )


def test_unknown_role(tmp_path: Path) -> None:
    file = written(tmp_path, "client,product\n1,2\n")
    assert "no column role 'usr'; did you mean 'user'?" in message(file, {"usr": "client"})


def test_no_usual_names(tmp_path: Path) -> None:
    said = message(written(tmp_path, "client,product,moment\n1,2,3\n"))
    assert "it has client, product, moment" in said
    assert "columns={'user': 'NAME', 'item': 'NAME', 'time': 'NAME'}" in said


def test_one_column_for_two_roles(tmp_path: Path) -> None:
    file = written(tmp_path, "a,b\n1,2\n")
    assert "named for two roles" in message(file, {"user": "a", "item": "a"})


def test_two_columns_for_one_role(tmp_path: Path) -> None:
    file = written(tmp_path, "user_id,userId,item\n1,2,3\n")
    assert "user_id and userId" in message(file)


@pytest.mark.parametrize("text", ["", "user", "user=", "=x", "user=a,user=b", "user=a,,item=b"])
def test_columns_that_cannot_be_read(text: str) -> None:
    with pytest.raises(TacitError, match="write each role once"):
        parse_columns(text)


def test_duplicate_header(tmp_path: Path) -> None:
    file = written(tmp_path, "user_id,item_id,item_id\n1,2,3\n")
    assert "names column 'item_id' twice" in message(file)


def test_line_with_more_fields(tmp_path: Path) -> None:
    assert "more fields than the first" in message(written(tmp_path, "user,item\n1,2\n3,4,5\n"))


def test_too_few_columns(tmp_path: Path) -> None:
    assert "has 2 columns where 4 are expected" in message(written(tmp_path, "1\t2\n", "u.data"))


@pytest.mark.parametrize("column", ["timestamp", "rating"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("soon", "is 'soon', which is not a number"),
        ("", "is empty"),
        ("NaN", "is NaN, which is not finite"),
        ("inf", "is inf, which is not finite"),
        ("-inf", "is -inf, which is not finite"),
    ],
)
def test_bad_number(tmp_path: Path, column: str, value: str, said: str) -> None:
    text = message(
        written(tmp_path, f"user_id,item_id,{column},x\n1,2,3,\n1,5,{value},\n1,6,oops,\n")
    )
    assert f"Column {column!r}" in text
    assert said in text
    assert "data row 2" in text


def test_negative_time_but_not_negative_rating(tmp_path: Path) -> None:
    file = written(tmp_path, "user_id,item_id,timestamp,rating\n1,2,3,-4\n1,3,-5,1\n")
    said = message(file)
    assert "'timestamp'" in said
    assert "-5 in data row 2; times must not be negative" in said
    columns = {"user": "user_id", "item": "item_id", "value": "rating"}
    value_N = read_path(file, columns).interactions.value_N
    assert value_N is not None
    assert value_N.tolist() == [-4, 1]


@pytest.mark.parametrize("row", [",7", '"",7', "   ,7"])
def test_missing_user(tmp_path: Path, row: str) -> None:
    said = message(written(tmp_path, f"user_id,item_id\n1,2\n{row}\n"))
    assert "Data row 2 of" in said
    assert "no id in column 'user_id'" in said


def test_missing_item_in_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": [1, 2], "item_id": [None, 3]}).write_parquet(tmp_path / "a.parquet")
    assert "no id in column 'item_id'" in message(tmp_path / "a.parquet")


@pytest.mark.parametrize("label", ["3", "-1", "0.5"])
def test_label_outside(tmp_path: Path, label: str) -> None:
    file = written(tmp_path, f"user_id,item_id,x_label\n1,2,0\n1,3,{label}\n")
    assert f"is {label} in data row 2; a split label must be 0" in message(file)


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}, {"a": 2}], [0.5, 1.5]])
def test_ids_of_the_wrong_kind(values: list[object]) -> None:
    with pytest.raises(TacitError, match="where ids"):
        from_frame({"u": values, "i": [1, 2]}, user="u", item="i")


def test_times_of_the_wrong_kind() -> None:
    with pytest.raises(TacitError, match="where numbers belong"):
        from_frame({"u": [1, 2], "i": [1, 2], "t": [[1], [2]]}, user="u", item="i", time="t")


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200) | st.text("user_id,item\n\t;\"'1 2:.-eé\0", max_size=80))
def test_no_content_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("a.csv", "b.inter", "u.data", "users.dat", "X_pair.csv", "c.parquet"):
        with contextlib.suppress(TacitError):
            read_path(written(folder, content, name))


LINES = [f"person-{row},thing-{row},{row}" for row in range(2000)]


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (0, '"user,item,time'),
        (0, 'user,item,"time'),
        (1, '"person-0,thing-0,0'),
        (900, 'person-0,"thing-0,0'),
        (1999, 'person-0,thing-0,"0'),
        (900, 'person-0,th"ing-0,0'),
    ],
)
def test_an_unclosed_quote_does_not_print_the_file(tmp_path: Path, place: int, line: str) -> None:
    lines = ["user,item,time", *LINES]
    lines[place] = line
    said = message(written(tmp_path, "\n".join(lines)))
    assert len(said) < 300
    assert "thing-1500" not in said
    assert "quote" in said
    if place:
        assert f"line {place + 1} has an odd number of quotes" in said


@pytest.mark.parametrize(
    "content",
    [
        "x" * 100_000 + ",b\n1,2\n",  # the name of a column
        ",".join(f"column-{n}" for n in range(5000)) + "\n",  # many of them
        f"user,item,time\n1,2,{'9' * 100_000}x\n",
        f"user,item,rating\n1,2,{'y' * 100_000}\n",
        f"user,item,split_label\n1,2,{'7' * 100}\n",
        f"user,item,{'z' * 9000},{'z' * 9000}\n1,2,3,4\n",
    ],
)
def test_messages_are_bounded(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)
    assert len(message(path)) < len(str(path)) + 2000
