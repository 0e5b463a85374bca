import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.karate import Karate
from fedgraph_sim.datasets.partitioners.random import Random
from fedgraph_sim.datasets.partitioners.whole import Whole
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.datasets.storage import prepare
from fedgraph_sim.datasets.store import PartitionStore
from fedgraph_sim.errors import ConfigError

NAMES = {"dataset": "made", "partition": "given"}
PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]


def nodes(*groups):
    return [np.array(group, dtype=np.int64) for group in groups]


def dense(x):
    return x.toarray() if isinstance(x, sparse.csr_array) else x


def assert_equal(graph, other):
    assert type(graph.x) is type(other.x)
    np.testing.assert_array_equal(dense(graph.x), dense(other.x))
    for name in ("edge_index", "y", "role", "node_id"):
        found, expected = getattr(graph, name), getattr(other, name)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert found.flags.writeable
    assert graph.num_classes == other.num_classes


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_round_trip(make_graph, tmp_path, kind):
    x = np.array([[0, 1, 2], [0, 0, 0], [3, 0, 0], [0, 4, 0], [5, 6, 7]], dtype=np.float32)
    graph = make_graph(5, PATH, both_ways=True, x=kind(x))
    store = PartitionStore.create(tmp_path / "s", graph, nodes([0, 1, 4], [2, 3]), **NAMES)
    assert_equal(store.whole(), graph)
    parts = store.load([1, 0])
    assert list(parts) == [1, 0]
    assert parts[0].node_id.tolist() == [0, 1, 4]
    assert parts[0].edge_index.T.tolist() == [[0, 1], [1, 0]]
    np.testing.assert_array_equal(dense(parts[0].x), x[[0, 1, 4]])
    np.testing.assert_array_equal(dense(parts[1].x), x[[2, 3]])
    assert parts[1].y.tolist() == [0, 1]


def test_info(make_graph, tmp_path):
    role = np.array([Role.TRAIN, Role.VAL, Role.TEST, Role.NONE, Role.TRAIN], dtype=np.int8)
    graph = make_graph(5, PATH, both_ways=True, role=role)
    info = PartitionStore.create(tmp_path / "s", graph, nodes([0, 1, 4], [2, 3]), **NAMES).info
    assert (info.dataset, info.partition, info.num_clients) == ("made", "given", 2)
    assert (info.num_nodes, info.num_edges, info.num_features, info.num_classes) == (5, 8, 2, 2)
    assert (info.nodes, info.edges, info.isolated) == ((3, 2), (2, 2), (1, 0))
    assert (info.train, info.val, info.test) == ((2, 0), (1, 0), (0, 1))
    assert info.class_counts == ((2, 1), (1, 1))
    assert info.edges_lost == 4  # 1-2 and 3-4
    assert info.cut == ((0, 2), (2, 0))
    assert info.size_balance == pytest.approx(3 / 2.5)
    assert info.label_divergence == pytest.approx(0.0207, abs=1e-4)  # of (2/3, 1/3) and (1/2, 1/2)


@pytest.mark.parametrize(("y", "expected"), [([0, 0, 1, 1], 1.0), ([0, 1, 0, 1], 0.0), ([0, 1, -1, -1], 0.0)])
def test_label_divergence(make_graph, tmp_path, y, expected):
    store = PartitionStore.create(tmp_path / "s", make_graph(4, [], y=np.array(y)), nodes([0, 1], [2, 3]), **NAMES)
    assert store.info.label_divergence == pytest.approx(expected)


def test_label_similarity(make_graph, tmp_path):
    graph = make_graph(5, [], y=np.array([0, 0, 0, 1, -1]))
    info = PartitionStore.create(tmp_path / "s", graph, nodes([0, 1], [2, 3], [4]), **NAMES).info
    cosine = 0.5**0.5  # of (2, 0) and (1, 1); the third client has no labels
    np.testing.assert_allclose(info.label_similarity, [[1, cosine, 0], [cosine, 1, 0], [0, 0, 0]])


def test_overlapping_clients(make_graph, tmp_path):
    graph = make_graph(5, PATH, both_ways=True)
    store = PartitionStore.create(tmp_path / "s", graph, nodes([0, 1, 2], [1, 2, 3]), **NAMES)
    assert [part.num_edges for part in store.load([0, 1]).values()] == [4, 4]
    assert store.info.edges_lost == 2  # node 4 is in no client
    assert store.info.cut == ((0, 0), (0, 0))


def test_weights_follow_their_edges(make_graph, tmp_path):
    weight = np.array([5, 6, 7, 8], dtype=np.float32)
    graph = make_graph(5, [(3, 4), (2, 3), (0, 1), (4, 2)], edge_weight=weight)
    store = PartitionStore.create(tmp_path / "s", graph, nodes([0, 1], [2, 3, 4]), **NAMES)
    part = store.load([1])[1]
    found = dict(zip(map(tuple, part.node_id[part.edge_index].T.tolist()), part.edge_weight.tolist(), strict=True))
    assert found == {(2, 3): 6, (3, 4): 5, (4, 2): 8}
    assert store.whole().edge_weight.tolist() == weight.tolist()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_clients_without_edges_training_nodes_or_features(make_graph, tmp_path, kind):
    graph = make_graph(3, [], x=kind(np.zeros((3, 4), dtype=np.float32)), role=np.zeros(3, dtype=np.int8))
    store = PartitionStore.create(tmp_path / "s", graph, nodes([0], [1, 2]), **NAMES)
    part = store.load([0])[0]
    assert part.edge_index.shape == (2, 0)
    assert part.edge_index.dtype == np.int64
    assert part.x.shape == (1, 4)
    assert store.info.train == (0, 0)
    assert store.whole().num_edges == 0


def run(cache, seed=0, num_clients=2, dataset=None, split=None):
    return prepare(
        dataset or Karate(),
        split or Split(),
        Random(),
        num_clients=num_clients,
        seed=seed,
        data_dir=None,
        cache_dir=cache,
    )


def test_prepare_reuses_only_the_same(tmp_path):
    first, reused = run(tmp_path)
    assert not reused
    again, reused = run(tmp_path)
    assert reused
    assert again.folder == first.folder
    others = [run(tmp_path, seed=1), run(tmp_path, num_clients=3), run(tmp_path, split=Split(train=0.3, val=0.3))]
    others.append(run(tmp_path, dataset=Karate(self_loops=True)))
    assert not any(reused for _, reused in others)
    assert len({store.folder for store, _ in others} | {first.folder}) == 5


@pytest.mark.parametrize("file", ["info.json", "nodes.parquet", "whole_edges.parquet", "client_graph.parquet"])
@pytest.mark.parametrize("damage", ["remove", "truncate", "replace"])
def test_a_damaged_store_is_built_anew(tmp_path, file, damage):
    path = run(tmp_path)[0].folder / file
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:20] if damage == "truncate" else b"{}")
    store, reused = run(tmp_path)
    assert not reused
    assert sum(part.num_nodes for part in store.load([0, 1]).values()) == 34
    assert [folder.name for folder in store.folder.parent.iterdir()] == [store.folder.name]


def test_concurrent_creators_agree(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: run(tmp_path)[0], range(4)))
    assert {store.folder for store in stores} == set((tmp_path / "partitions").iterdir())
    assert stores[0].is_complete()


def test_a_failed_creation_leaves_nothing(make_graph, tmp_path):
    with pytest.raises(IndexError):
        PartitionStore.create(tmp_path / "s", make_graph(2, []), nodes([0], [7]), **NAMES)
    assert list(tmp_path.iterdir()) == []


def test_errors_come_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="clients=50 but the graph has 34 nodes"):
        run(tmp_path, num_clients=50)
    with pytest.raises(ConfigError, match="set clients=1"):
        prepare(Karate(), Split(), Whole(), num_clients=2, seed=0, data_dir=None, cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


FILES = ("nodes.parquet", "edges.parquet", "whole_nodes.parquet", "whole_edges.parquet")


@pytest.mark.parametrize("file", [*FILES, "client_graph.parquet"])
def test_garbage_inside_a_store_is_told(tmp_path, file):
    store = run(tmp_path)[0]
    content = bytearray((store.folder / file).read_bytes())
    for start in range(8, len(content) // 2, 16):
        content[start : start + 8] = b"garbage!"
    (store.folder / file).write_bytes(content)
    with pytest.raises(ConfigError, match=r"the partition store .* is damaged \(.*\); delete it"):
        read_all(PartitionStore(store.folder))


def read_all(store):
    store.load([0, 1])
    store.whole()
    store.client_graph()


@pytest.mark.parametrize("file", [*FILES, "client_graph.parquet"])
def test_files_of_another_store_are_told(make_graph, tmp_path, file):
    store = run(tmp_path)[0]
    graph = make_graph(99, [(97, 98)] * 2)
    parts = nodes(range(98), [98], [97]) if file == "client_graph.parquet" else nodes([0], range(1, 99))
    other = PartitionStore.create(tmp_path / "s", graph, parts, **NAMES)
    (store.folder / file).write_bytes((other.folder / file).read_bytes())
    with pytest.raises(ConfigError, match=r"the partition store .* is damaged \(.*\); delete it"):
        read_all(PartitionStore(store.folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_clients": 3},
        {"num_clients": "two"},
        {"num_classes": 5},
        {"num_features": -4},
        {"num_features": None},
        {"nodes": [1, 1]},
        {"nodes": 7},
        {"train": [1]},
        {"class_counts": [1, 2]},
    ],
)
def test_an_edited_info_is_told(tmp_path, changes):
    store = run(tmp_path)[0]
    path = store.folder / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ConfigError, match=r"the partition store .* is damaged \(.*\); delete it"):
        PartitionStore(store.folder).load([0, 1])


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "\x00"])
def test_an_info_of_another_kind_is_told(tmp_path, text):
    (tmp_path / "info.json").write_text(text)
    with pytest.raises(ConfigError, match="is damaged"):
        _ = PartitionStore(tmp_path).info


def test_a_cache_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "partitions").write_text("in the way")
    with pytest.raises(ConfigError, match=r"the cache folder .*partitions cannot be written .*FEDGRAPH_CACHE"):
        run(tmp_path)


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedgraph_sim.datasets.store.write_graphs", full)
    with pytest.raises(ConfigError, match=r"cannot be written .*No space left on device.*FEDGRAPH_CACHE"):
        run(tmp_path)


def test_arrays_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    load = Karate.load
    monkeypatch.setattr(Karate, "load", lambda *arguments: replace(load(*arguments), num_classes=1))
    with pytest.raises(ConfigError, match=r"the data set karate returns arrays that do not fit \(y does not fit"):
        run(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_complete_store_is_used_without_writing(tmp_path, monkeypatch):
    run(tmp_path)

    def refuse(*args, **options):
        raise OSError(30, "Read-only file system")

    for name in ("mkdir", "write_text", "write_bytes", "rename"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse)
    store, reused = run(tmp_path)
    assert reused
    assert len(store.load([0, 1])) == 2
