"""RecBole, MMRec, MovieLens, NineRec and CiteULike files, each in the smallest form."""

from pathlib import Path

import numpy as np
import pytest

from tacit.data.dataset import Dataset
from tacit.data.readers import READERS, read_path
from tacit.errors import TacitError


def rows(dataset: Dataset) -> list[tuple[str, str]]:
    data = dataset.interactions
    return [(data.users[u], data.items[i]) for u, i in zip(data.user_N, data.item_N, strict=True)]


def first_match(path: Path) -> str:
    return next(name for name, reader in READERS.items() if reader.matches(path))


def test_recbole(tmp_path: Path) -> None:
    (tmp_path / "few.inter").write_text(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        "u1\ti1\t4.5\t881250949.0\nu2\ti1\t3\t891717742.0\n"
    )
    (tmp_path / "few.item").write_text(
        'item_id:token\tmovie_title:token_seq\tclass:token_seq\ni1\tThe "Rock" 1996\tAction\n'
    )
    for path in (tmp_path, tmp_path / "few.inter"):
        dataset = read_path(path)
        assert first_match(path) == "recbole"
        assert dataset.name == "few"
        assert rows(dataset) == [("u1", "i1"), ("u2", "i1")]
        assert dataset.texts == {"title": ('The "Rock" 1996',)}
        assert dataset.interactions.time_N is not None
        assert dataset.interactions.time_N.dtype == np.int64
        assert dataset.interactions.time_N.tolist() == [881250949, 891717742]


def test_recbole_artist_name_is_a_title(tmp_path: Path) -> None:
    (tmp_path / "few.inter").write_text("user_id:token\titem_id:token\nu1\t5\n")
    (tmp_path / "few.item").write_text("item_id:token\tname:token\n5\tAir\n")
    assert read_path(tmp_path).texts == {"title": ("Air",)}


def test_two_inter_files_need_a_choice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.inter").write_text("user_id:token\titem_id:token\nu1\t5\n")
    with pytest.raises(TacitError, match=r"no known layout: it holds a.inter, b.inter"):
        read_path(tmp_path)
    assert read_path(tmp_path / "b.inter").name == "b"


def mmrec(folder: Path, n_features: int = 3) -> Path:
    (folder / "baby.inter").write_text(
        "userID\titemID\trating\ttimestamp\tx_label\n0\t2\t5.0\t100\t0\n0\t0\t5.0\t200\t2\n1\t2\t1.0\t50\t1\n"
    )
    np.save(folder / "image_feat.npy", np.arange(n_features, dtype=np.float32)[:, None])
    return folder


def test_mmrec(tmp_path: Path) -> None:
    dataset = read_path(mmrec(tmp_path))
    assert first_match(tmp_path) == "mmrec"
    assert dataset.interactions.items == ("2", "0")
    assert dataset.interactions.label_N is not None
    assert dataset.interactions.label_N.tolist() == [0, 2, 1]
    assert dataset.modalities["image"].value_IF.tolist() == [[2.0], [0.0]]
    assert dataset.modalities["image"].present_I.all()


def test_mmrec_with_too_few_feature_rows(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="has 2 rows, so no row for item '2'"):
        read_path(mmrec(tmp_path, n_features=2))


def test_movielens_100k(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    (tmp_path / "u.item").write_bytes(
        "242|Kolya (1996)|24-Jan-1997||http://x|0|0\n302|Misérables, Les|1||y|0|1\n".encode(
            "latin-1"
        )
    )
    dataset = read_path(tmp_path)
    assert first_match(tmp_path) == "movielens"
    assert rows(dataset) == [("196", "242"), ("186", "302")]
    assert dataset.texts == {"title": ("Kolya (1996)", "Misérables, Les")}


def test_movielens_1m(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    (tmp_path / "movies.dat").write_bytes(
        '661::James: the "Peach" (1996)::Animation|Musical\n1193::Café::Drama\n'.encode("latin-1")
    )
    dataset = read_path(tmp_path / "ratings.dat")
    assert rows(dataset) == [("1", "1193"), ("1", "661")]
    assert dataset.texts["title"] == ("Café", 'James: the "Peach" (1996)')
    assert dataset.texts["genres"] == ("Drama", "Animation|Musical")
    assert dataset.interactions.value_N is not None
    assert dataset.interactions.value_N.tolist() == [5, 3]


def test_movielens_csv(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n")
    (tmp_path / "movies.csv").write_text(
        'movieId,title,genres\n31,"Minds, Dangerous (1995)",Drama\n'
    )
    for path in (tmp_path, tmp_path / "ratings.csv"):
        assert first_match(path) == "movielens"
        assert read_path(path).texts["title"] == ("Minds, Dangerous (1995)",)


def test_somebody_elses_ratings_csv_is_a_table(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text("user_id,item_id\n1,2\n")
    assert first_match(file) == "table"


@pytest.mark.parametrize("header", ["", "user,item,timestamp\n"])
def test_ninerec(tmp_path: Path, header: str) -> None:
    (tmp_path / "KU_pair.csv").write_text(header + "u1,v3,1516237335600\nu1,v4,1516249707191\n")
    (tmp_path / "KU_item.csv").write_text('v4,中文,"Tea, green"\nv3,茶,\n')
    dataset = read_path(tmp_path)
    assert first_match(tmp_path) == "ninerec"
    assert dataset.name == "KU"
    assert rows(dataset) == [("u1", "v3"), ("u1", "v4")]
    assert dataset.texts == {"title": ("茶", "Tea, green"), "title_zh": ("茶", "中文")}


def test_two_ninerec_sets_need_a_choice(tmp_path: Path) -> None:
    for name in ("KU", "QB"):
        (tmp_path / f"{name}_pair.csv").write_text("u1,v3,5\n")
    with pytest.raises(TacitError, match=r"KU_pair.csv, QB_pair.csv"):
        read_path(tmp_path)


def test_citeulike(tmp_path: Path) -> None:
    (tmp_path / "users.dat").write_text("2 495 16\n1 495\n")
    dataset = read_path(tmp_path)
    assert first_match(tmp_path) == "citeulike"
    assert rows(dataset) == [("0", "495"), ("0", "16"), ("1", "495")]
    assert dataset.interactions.time_N is None


def test_citeulike_line_that_lies(tmp_path: Path) -> None:
    (tmp_path / "users.dat").write_text("2 495 16\n3 495\n")
    with pytest.raises(TacitError, match=r"Line 2 of .* announces 3 articles but lists 1"):
        read_path(tmp_path)
