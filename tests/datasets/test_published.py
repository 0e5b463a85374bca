"""Readers of published files, on small made-up files of the same layout."""

import gzip
import pickle
import urllib.error

import numpy as np
import pytest
from scipy import sparse

from fedgraph_sim.datasets.amazon_coauthor import AmazonCoauthor
from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.heterophilous import Heterophilous
from fedgraph_sim.datasets.ogbn import OgbnArxiv
from fedgraph_sim.datasets.planetoid import CHECKSUMS, Planetoid
from fedgraph_sim.errors import ConfigError


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def write_amazon(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"labels": np.array([0, 1, 0, 1])}
    matrices = {"adj": [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], "attr": np.eye(4, 9) * 3}
    for name, matrix in matrices.items():
        matrix = sparse.csr_array(np.asarray(matrix, dtype=np.float32))
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(folder / "amazon_electronics_photo.npz", **(arrays | changes))


@pytest.mark.parametrize("place", ["Amazon/Photo/raw", "Photo/raw", "pyg/Amazon/Photo/raw", "npz", "."])
def test_amazon_in_any_of_its_places(tmp_path, place):
    write_amazon(tmp_path / "data" / place)
    graph = AmazonCoauthor(name="Photo").load(tmp_path / "data", tmp_path / "cache")
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.y.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(graph.x.toarray(), np.eye(3, 9))  # 3 becomes 1
    assert not (tmp_path / "cache").exists()


def test_downloads_go_to_the_cache(tmp_path, monkeypatch):
    write_amazon(tmp_path / "origin")
    asked = []

    def open_local(url, timeout):
        asked.append((url.rpartition("/")[2], timeout))
        return (tmp_path / "origin" / "amazon_electronics_photo.npz").open("rb")

    monkeypatch.setattr("urllib.request.urlopen", open_local)
    for _ in range(2):
        assert AmazonCoauthor(name="Photo").load(None, tmp_path / "cache").num_nodes == 3
    assert asked == [("amazon_electronics_photo.npz", 5.0)]
    assert (tmp_path / "cache/raw/Amazon/Photo/raw/amazon_electronics_photo.npz").is_file()


def test_missing_files_name_the_way_out(tmp_path, no_network):
    message = (
        r"needs ind\.cora\.x, .*Planetoid/Cora/raw below any of .*given, .*no network.*--data-dir or FEDGRAPH_DATA"
    )
    with pytest.raises(ConfigError, match=message):
        Planetoid(name="Cora").load(tmp_path / "given", tmp_path / "cache")


@pytest.mark.parametrize("content", [b"", b"no npz", pickle.dumps({"labels": 1})])
def test_a_foreign_npz_is_refused(tmp_path, content):
    (tmp_path / "amazon_electronics_photo.npz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"amazon_electronics_photo\.npz is not as published"):
        AmazonCoauthor(name="Photo").load(tmp_path, tmp_path / "cache")


class Malicious:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (self.mark.touch, ())


def test_a_foreign_planetoid_pickle_is_never_read(tmp_path):
    folder = tmp_path / "Cora" / "raw"
    folder.mkdir(parents=True)
    for file in CHECKSUMS["Cora"]:
        (folder / file).write_bytes(pickle.dumps(Malicious(tmp_path / "ran")))
    with pytest.raises(ConfigError, match=r"ind\.cora\.\w+ is a pickle that differs from the published file"):
        Planetoid(name="Cora").load(tmp_path, tmp_path / "cache")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": [0, 1]},
        {"labels": [0, 1, 0, 10**9]},
        {"labels": ["a", "b", "c", "d"]},
        {"labels": []},
        {"adj_indices": [1]},
        {"adj_indices": [1, 9]},
        {"adj_data": [1.0]},
        {"adj_indptr": [0, 1, 2]},
        {"attr_indices": [0, 1, 2, 9]},
        {"attr_shape": 4},
        {"adj_shape": [4, 5], "adj_indices": [1, 4]},
    ],
)
def test_an_npz_whose_arrays_do_not_fit_is_refused(tmp_path, changes):
    write_amazon(tmp_path, **changes)
    with pytest.raises(ConfigError, match=r"amazon_electronics_photo\.npz"):
        AmazonCoauthor(name="Photo").load(tmp_path, tmp_path / "cache")


def test_the_fingerprint_follows_the_content_of_raw_files(tmp_path):
    write_amazon(tmp_path)
    write_arxiv(tmp_path)
    write_heterophilous(tmp_path)
    changes = {
        "amazon_electronics_photo.npz": AmazonCoauthor(name="Photo"),
        "roman_empire.npz": Heterophilous(name="roman-empire"),
        "ogbn_arxiv/split/time/test.csv.gz": OgbnArxiv(),
    }
    for file, dataset in changes.items():
        before = dataset.fingerprint(tmp_path, tmp_path / "cache")
        assert dataset.fingerprint(tmp_path, tmp_path / "cache") == before
        (tmp_path / file).write_bytes(b"other")
        assert dataset.fingerprint(tmp_path, tmp_path / "cache") != before


def test_the_fingerprint_of_planetoid_follows_the_content_of_its_files(tmp_path):
    for file in CHECKSUMS["Cora"]:
        (tmp_path / file).write_bytes(b"1")
    before = Planetoid(name="Cora").fingerprint(tmp_path, tmp_path)
    (tmp_path / "ind.cora.graph").write_bytes(b"2")
    assert Planetoid(name="Cora").fingerprint(tmp_path, tmp_path) != before


def test_the_fingerprint_needs_the_files(tmp_path, no_network):
    with pytest.raises(ConfigError, match=r"needs ind\.cora\.x"):
        Planetoid(name="Cora").fingerprint(None, tmp_path)


def write_heterophilous(folder, **changes):
    masks = np.zeros((10, 3), dtype=bool)
    train, val, test = masks.copy(), masks.copy(), masks.copy()
    train[2, 0] = val[2, 1] = test[2, 2] = True
    arrays = {
        "node_features": np.ones((3, 2), dtype=np.float32),
        "node_labels": np.array([2, 0, 1]),
        "edges": np.array([[0, 1], [1, 2]]),
        "train_masks": train,
        "val_masks": val,
        "test_masks": test,
    }
    np.savez(folder / "roman_empire.npz", **(arrays | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"node_labels": [0, 1]},
        {"node_labels": [0, 1, -7]},
        {"node_features": [1.0, 2.0, 3.0]},
        {"node_features": [[1.0], [2.0]]},
        {"node_features": [[1.0], [np.nan], [2.0]]},
        {"edges": [[0, 3]]},
        {"edges": [[0, 1, 2]]},
        {"edges": [0, 1]},
        {"val_masks": [[True, False]] * 10},
        {"val_masks": [True, False, False]},
        {"val_masks": [[True, False, False]]},
    ],
)
def test_a_heterophilous_npz_whose_arrays_do_not_fit_is_refused(tmp_path, changes):
    write_heterophilous(tmp_path, **changes)
    with pytest.raises(ConfigError, match=r"roman_empire\.npz"):
        Heterophilous(name="roman-empire", split_index=2).load(tmp_path, tmp_path / "cache")


def test_heterophilous_own_roles(tmp_path):
    write_heterophilous(tmp_path)
    graph = Heterophilous(name="roman-empire", split_index=2).load(tmp_path, tmp_path / "cache")
    assert graph.role.tolist() == [Role.TRAIN, Role.VAL, Role.TEST]
    assert graph.num_classes == 3
    assert graph.num_edges == 4


def write_arxiv(folder):
    files = {
        "raw/edge": "0,1\n1,2\n",
        "raw/node-feat": "0.5,-1\n1,1\n0,2\n",
        "raw/node-label": "1\n0\n1\n",
        "split/time/train": "2\n",
        "split/time/valid": "0\n",
        "split/time/test": "1\n",
    }
    for name, text in files.items():
        path = folder / "ogbn_arxiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def test_arxiv(tmp_path):
    write_arxiv(tmp_path)
    graph = OgbnArxiv().load(tmp_path, tmp_path / "cache")
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.x.tolist() == [[0.5, -1], [1, 1], [0, 2]]
    assert graph.y.tolist() == [1, 0, 1]
    assert graph.role.tolist() == [Role.VAL, Role.TEST, Role.TRAIN]


def test_arxiv_without_files_or_ogb(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ogb.nodeproppred", None)
    with pytest.raises(ConfigError, match=r"ogb.*is not installed \(pip install 'fedgraph-sim\[ogb\]'\)"):
        OgbnArxiv().load(None, tmp_path)


@pytest.mark.parametrize(
    ("file", "text"),
    [("raw/edge", "0,7\n"), ("raw/node-label", "1\n0\n"), ("split/time/test", "9\n"), ("raw/node-feat", "1\n")],
)
def test_arxiv_whose_files_do_not_fit(tmp_path, file, text):
    write_arxiv(tmp_path)
    (tmp_path / "ogbn_arxiv" / f"{file}.csv.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ConfigError, match="ogbn_arxiv is not as published"):
        OgbnArxiv().load(tmp_path, tmp_path / "cache")


def test_arxiv_with_a_broken_file(tmp_path):
    write_arxiv(tmp_path)
    (tmp_path / "ogbn_arxiv/raw/edge.csv.gz").write_bytes(gzip.compress(b"a,b\n"))
    with pytest.raises(ConfigError, match=r"edge\.csv\.gz is not a csv file of numbers"):
        OgbnArxiv().load(tmp_path, tmp_path / "cache")
