"""FedMR's folders, and features put beside other people's layouts."""

from pathlib import Path

import numpy as np
import pytest

from tacit.data.readers import READERS, read_path
from tacit.errors import TacitError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three items numbered from 0, as FedMR and FedVLR keep them."""
    place = tmp_path / "KU"
    place.mkdir()
    (place / "inter.csv").write_text(
        "userID,itemID,rating,timestamp,split_label\n0,2,1.0,30,0\n0,0,1.0,40,1\n0,1,1.0,50,2\n"
    )
    (place / "i_id_mapping.csv").write_text("asin,itemID\nB01,0\nB02,1\nB03,2\n")
    (place / "u_id_mapping.csv").write_text("user,userID\nU01,0\n")
    np.save(place / "image_features.npy", np.array([[0.0], [1.0], [2.0]], np.float16))
    np.save(place / "text_features.npy", np.eye(3, dtype=np.float32))
    np.save(place / "similarity.npy", np.eye(1))
    return place


def test_fedmr(folder: Path) -> None:
    assert next(name for name, one in READERS.items() if one.matches(folder)) == "mmrec"
    dataset = read_path(folder)
    assert dataset.name == "KU"
    assert dataset.interactions.items == ("2", "0", "1")
    assert dataset.interactions.label_N is not None
    assert dataset.interactions.label_N.tolist() == [0, 1, 2]
    assert sorted(dataset.modalities) == ["image", "text"]
    assert dataset.modalities["image"].value_IF.tolist() == [[2.0], [0.0], [1.0]]
    assert dataset.texts == {"original_id": ("B03", "B01", "B02")}


def test_feat_instead_of_features_and_x_label(folder: Path) -> None:
    file = folder / "inter.csv"
    file.write_text(file.read_text().replace("split_label", "x_label").replace(",", "\t"))
    file.rename(folder / "KU.inter")
    (folder / "image_features.npy").rename(folder / "image_feat.npy")
    dataset = read_path(folder)
    assert dataset.interactions.label_N is not None
    assert dataset.interactions.label_N.tolist() == [0, 1, 2]
    assert dataset.modalities["image"].value_IF.tolist() == [[2.0], [0.0], [1.0]]


def test_one_modality_twice(folder: Path) -> None:
    np.save(folder / "text_feat.npy", np.eye(3))
    with pytest.raises(TacitError, match="two tables for 'text'"):
        read_path(folder)


def test_a_list_of_ids_says_which_rows_there_are(folder: Path) -> None:
    (folder / "image_features.npy").unlink()
    np.save(folder / "image_feat.npy", np.array([[7.0]], np.float32))
    (folder / "image_item_ids.txt").write_text("1\n")
    table = read_path(folder).modalities["image"]
    assert table.present_I.tolist() == [False, False, True]
    assert table.value_IF.tolist() == [[0.0], [0.0], [7.0]]


def test_a_csv_without_labels_is_not_taken_for_one(folder: Path) -> None:
    (folder / "inter.csv").write_text("userID,itemID\n0,2\n")
    with pytest.raises(TacitError, match="in no known layout"):
        read_path(folder)


def test_features_beside_movielens(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    assert list(read_path(tmp_path).modalities) == []
    np.save(tmp_path / "audio_feat.npy", np.array([[1.0, 2.0]], np.float32))
    (tmp_path / "audio_item_ids.txt").write_text("302\n")
    assert read_path(tmp_path).modalities["audio"].value_IF.tolist() == [[0, 0], [1, 2]]
    assert list(read_path(tmp_path / "u.data").modalities) == []


def test_native_folder_with_csv(tmp_path: Path) -> None:
    (tmp_path / "interactions.csv").write_text("who,what,when\nann,x,3\nann,y,4\n")
    (tmp_path / "items.csv").write_text("item_id,title\ny,Yes\n")
    columns = {"user": "who", "item": "what", "time": "when"}
    dataset = read_path(tmp_path, columns)
    assert dataset.texts == {"title": ("", "Yes")}
    assert dataset.interactions.time_N is not None
    assert dataset.interactions.time_N.tolist() == [3, 4]
    # The file by itself is a table like any other.
    assert read_path(tmp_path / "interactions.csv", columns).texts == {}
