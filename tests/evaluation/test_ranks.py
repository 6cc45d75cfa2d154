import numpy as np
import polars as pl
import pytest

from tacit.errors import TacitError
from tacit.evaluation.ranks import Ranks


@pytest.fixture
def ranks() -> Ranks:
    columns = np.array([[3, 3, 8], [10, 11, 12], [0, 40, 50], [2, 0, 0], [50, 50, 50]])
    return Ranks(*columns, part="valid", candidate_set="sampled")


def test_round_trip(ranks, tmp_path):
    ranks.save(tmp_path / "ranks.parquet")
    again = Ranks.load(tmp_path / "ranks.parquet")
    for name in ("user_H", "item_H", "above_H", "tied_H", "candidates_H"):
        assert getattr(again, name).tolist() == getattr(ranks, name).tolist()
        assert getattr(again, name).dtype == np.int64
    assert (again.part, again.candidate_set) == ("valid", "sampled")
    assert [path.name for path in tmp_path.iterdir()] == ["ranks.parquet"]


def test_file_holds_original_ids_and_loads_without_them(ranks, tmp_path):
    users = [f"user-{code}" for code in range(9)]
    items = [f"item-{code}" for code in range(13)]
    ranks.save(tmp_path / "ranks.parquet", users=users, items=items)
    table = pl.read_parquet(tmp_path / "ranks.parquet")
    assert table["user_id"].to_list() == ["user-3", "user-3", "user-8"]
    assert table["item_id"].to_list() == ["item-10", "item-11", "item-12"]
    assert table["part"].unique().to_list() == ["valid"]
    assert Ranks.load(tmp_path / "ranks.parquet").user_H.tolist() == [3, 3, 8]


def test_failed_write_leaves_the_old_file_and_nothing_else(ranks, tmp_path, monkeypatch):
    path = tmp_path / "ranks.parquet"
    ranks.save(path)
    before = path.read_bytes()

    def full_disk(table, target):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(TacitError, match="No space left"):
        ranks.where(np.array([0])).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_missed_is_above_everybody(ranks):
    assert ranks.missed_H.tolist() == [False, False, True]


def test_where_takes_rows(ranks):
    some = ranks.where(ranks.user_H == 3)
    assert some.item_H.tolist() == [10, 11]
    assert some.candidate_set == "sampled"


def test_columns_of_unequal_length_are_refused():
    two, one = np.zeros(2, int), np.zeros(1, int)
    with pytest.raises(TacitError, match="tied_H has 1 rows but user_H has 2"):
        Ranks(two, two, two, one, two, "test", "full")


def test_load_says_what_is_wrong(ranks, tmp_path):
    with pytest.raises(TacitError, match="No ranks file"):
        Ranks.load(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(TacitError, match="cannot be read as parquet"):
        Ranks.load(tmp_path / "text.parquet")
    ranks.frame().drop("tied").write_parquet(tmp_path / "short.parquet")
    with pytest.raises(TacitError, match="no column 'tied'"):
        Ranks.load(tmp_path / "short.parquet")
    other = ranks.frame().with_columns(pl.lit("full").alias("candidate_set"))
    pl.concat([ranks.frame(), other]).write_parquet(tmp_path / "mixed.parquet")
    with pytest.raises(TacitError, match="2 kinds of ranks"):
        Ranks.load(tmp_path / "mixed.parquet")


def test_save_makes_its_folder_or_says_why_not(ranks, tmp_path):
    ranks.save(tmp_path / "absent" / "ranks.parquet")
    assert len(Ranks.load(tmp_path / "absent" / "ranks.parquet")) == len(ranks)
    below = tmp_path / "absent" / "ranks.parquet" / "ranks.parquet"
    with pytest.raises(TacitError, match=r"could not be written .* choose another folder"):
        ranks.save(below)
