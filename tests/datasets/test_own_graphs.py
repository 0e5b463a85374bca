import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from fedgraph_sim.datasets.folder import Folder
from fedgraph_sim.datasets.graph import Role
from fedgraph_sim.datasets.pyg_file import PygFile
from fedgraph_sim.datasets.split import Split
from fedgraph_sim.errors import ConfigError

NODES = {"id": ["a", "b", "c"], "label": ["cat", "ant", "cat"], "features": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
ALL = {"train": 1.0, "val": 0.0, "test": 0.0}
EDGES = {"source": ["a", "c"], "target": ["b", "a"]}


def write(folder, nodes=None, edges=None):
    pq.write_table(pa.table(nodes or NODES), folder / "nodes.parquet")
    pq.write_table(pa.table(edges or EDGES), folder / "edges.parquet")
    return Folder(path=folder)


def test_folder(tmp_path):
    nodes = NODES | {"split": ["train", None, "test"], "client": ["x", "y", "x"]}
    graph = write(tmp_path, nodes, EDGES | {"weight": [1, 2]}).load(None, tmp_path)
    assert graph.x.tolist() == NODES["features"]
    assert graph.y.tolist() == [1, 0, 1]
    assert graph.num_classes == 2
    assert graph.role.tolist() == [Role.TRAIN, Role.NONE, Role.TEST]
    assert graph.client.tolist() == [0, 1, 0]
    assert graph.edge_index.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert graph.edge_weight.tolist() == [1, 2, 1, 2]


def test_folder_with_integers_and_a_column_per_feature(tmp_path):
    nodes = {"size": [1, 2], "id": [7, 3], "label": [5, 9], "age": [0.5, 0.25], "old": [True, False]}
    graph = write(tmp_path, nodes, {"source": [3], "target": [7]}).load(None, tmp_path)
    assert graph.x.tolist() == [[1, 0.5, 1], [2, 0.25, 0]]
    assert graph.y.tolist() == [0, 1]
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0]]


def test_folder_without_edges(tmp_path):
    edges = {"source": pa.array([], pa.string()), "target": pa.array([], pa.string())}
    assert write(tmp_path, None, edges).load(None, tmp_path).num_edges == 0


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({}, {"target": ["b", "z"]}, r"edges\.parquet: target 'z' of row 2 is no id in nodes\.parquet"),
        ({}, {"source": [1, 2]}, r"column source is of type int64 but each id in nodes\.parquet is large_string"),
        ({}, {"source": ["a", None]}, r"edges\.parquet: source of row 2 is missing"),
        ({}, {"weight": [1.0, -2.0]}, "weight of row 2 is -2; replace"),
        ({}, {"weight": [float("nan"), 1.0]}, "weight of row 1 holds nan; replace"),
        ({"id": ["a", "b", "a"]}, {}, r"nodes\.parquet: id 'a' of row 3 is that of row 1 too"),
        ({"id": ["a", None, "c"]}, {}, r"nodes\.parquet: id of row 2 is missing"),
        ({"label": [None, None, None]}, {}, "column label has no value in any row; fill some in"),
        ({"label": [1.5, 2.0, 3.0]}, {}, r"column label is of type double; store it as integers or text"),
        (
            {"features": [[1.0, 2.0], [float("nan"), 4.0], [5.0, 6.0]]},
            {},
            "features of row 2 holds nan; replace",
        ),
        ({"features": [[1.0, 2.0], [1e39, 4.0], [5.0, 6.0]]}, {}, r"features of row 2 holds 1e\+39; replace"),
        ({"features": None, "age": [1.0, -1e300, 2.0]}, {}, r"age of row 2 holds -1e\+300; replace"),
        ({}, {"weight": [1e300, 1.0]}, r"weight of row 1 holds 1e\+300; replace"),
        ({"features": [[1.0], [1.0, 2.0], [1.0]]}, {}, r"features of row 2 has 2 numbers and that of row 1 1"),
        ({"features": pa.array([[], [], []], pa.list_(pa.float32()))}, {}, r"features of row 1 is an empty list"),
        ({"features": [[1.0, 2.0], [3.0, None], [5.0, 6.0]]}, {}, r"features of row 2 has a missing value"),
        ({"features": [[1.0, 2.0], None, [5.0, 6.0]]}, {}, r"features of row 2 is missing"),
        ({"features": [["p"], ["q"], ["r"]]}, {}, r"column features is of type string but must be numeric"),
        ({"features": ["p", "q", "r"]}, {}, r"column features is of type string; store a list of numbers"),
        ({"features": None}, {}, r"nodes\.parquet has no feature columns"),
        ({"features": None, "age": ["p", "q", "r"]}, {}, r"column age is of type string but must be numeric"),
        ({"features": None, "age": [1, None, 2]}, {}, r"age of row 2 is missing"),
        ({"split": ["train", "valid", "test"]}, {}, r"split 'valid' of row 2 is unknown; use train, val, test or null"),
        ({"split": [1, 2, 3]}, {}, r"column split is of type int64; store text"),
        ({"client": ["x", None, "x"]}, {}, r"client of row 2 is missing"),
        (
            {"id": pa.array([1, 2, 2**63], pa.uint64())},
            {"source": [1], "target": [2]},
            r"nodes\.parquet: column id has integers from 2\^63",
        ),
        ({"label": pa.array([1, 2, 2**64 - 1], pa.uint64())}, {}, r"column label has integers from 2\^63"),
        ({"features": None, "__index_level_0__": [0, 1, 2]}, {}, r"nodes\.parquet has no feature columns"),
        ({"label": None}, {}, r"nodes\.parquet has no column label among id, features; add it"),
        ({}, {"target": None}, r"edges\.parquet has no column target among source; add it"),
    ],
)
def test_a_bad_folder_is_refused(tmp_path, nodes, edges, message):
    def merge(table, changes):
        return {key: column for key, column in (table | changes).items() if column is not None}

    with pytest.raises(ConfigError, match=message):
        write(tmp_path, merge(NODES, nodes), merge(EDGES, edges)).load(None, tmp_path)


@pytest.mark.parametrize("labels", [["cat", None, "ant"], [7, None, 3], pa.array(["b", None, "a"]).dictionary_encode()])
@pytest.mark.parametrize("split", [{"kind": "own"}, ALL, {"stratified": True, **ALL}])
def test_a_node_without_a_label_has_neighbours_but_no_role(tmp_path, labels, split):
    nodes = NODES | {"label": labels, "split": ["train", "train", "test"]}
    graph = Split(**split).apply(write(tmp_path, nodes).load(None, tmp_path), 0)
    assert graph.y.tolist() == [1, -1, 0]
    assert graph.num_classes == 2
    assert [role != Role.NONE for role in graph.role] == [True, False, True]
    assert graph.edge_index.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]


def test_own_roles_of_nodes_without_labels_alone_are_refused(tmp_path):
    nodes = NODES | {"label": ["cat", None, "ant"], "split": ["val", "train", "test"]}
    with pytest.raises(ConfigError, match="marks no labelled node for training"):
        Split(kind="own").apply(write(tmp_path, nodes).load(None, tmp_path), 0)


def test_columns_of_the_same_name_are_refused(tmp_path):
    dataset = write(tmp_path)
    columns = [pa.array(NODES[name]) for name in ("id", "label", "features", "label")]
    pq.write_table(pa.table(columns, names=["id", "label", "features", "label"]), tmp_path / "nodes.parquet")
    with pytest.raises(ConfigError, match=r"nodes\.parquet has several columns named label; rename or remove"):
        dataset.load(None, tmp_path)


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    nodes = {"id": [7, 3], "label": [5, 9], "age": [0.5, 0.25], "__index_level_0__": [4, 2]}
    assert write(tmp_path, nodes, {"source": [3], "target": [7]}).load(None, tmp_path).x.tolist() == [[0.5], [0.25]]


def test_a_folder_whose_path_looks_like_a_column(tmp_path):
    folder = tmp_path / "age=3"
    folder.mkdir()
    assert write(folder).load(None, tmp_path).num_features == 2


@pytest.mark.parametrize("dataset", [Folder, PygFile])
def test_the_home_folder_of_nobody_is_refused(dataset):
    with pytest.raises(ValidationError, match="unknown user; write the whole path"):
        dataset(path="~nouser/x")


def test_a_folder_without_rows_or_files_is_refused(tmp_path):
    dataset = write(tmp_path, {name: pa.array([], pa.int64()) for name in ("id", "label", "x0")})
    with pytest.raises(ConfigError, match=r"nodes\.parquet has no rows"):
        dataset.load(None, tmp_path)
    (tmp_path / "nodes.parquet").write_bytes(b"id,label\n")
    with pytest.raises(ConfigError, match=r"nodes\.parquet is not a readable Parquet file"):
        dataset.load(None, tmp_path)
    (tmp_path / "nodes.parquet").unlink()
    for use in (dataset.load, dataset.fingerprint):
        with pytest.raises(ConfigError, match=r"nodes\.parquet"):
            use(None, tmp_path)


def test_the_fingerprint_follows_the_content_not_the_path(tmp_path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    first, same = write(folders[0]), write(folders[1])
    other = write(folders[2], None, {"source": ["a", "c"], "target": ["b", "b"]})
    prints = [dataset.fingerprint(None, tmp_path) for dataset in (first, same, other)]
    assert prints[0] == prints[1] != prints[2]


def save(path, **changes):
    import torch
    from torch_geometric.data import Data

    tensors = {
        "x": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "y": torch.tensor([0, 1, -1]),
        "train_mask": torch.tensor([True, False, False]),
    }
    content = {key: value for key, value in (tensors | changes).items() if value is not None}
    torch.save(Data(**content) if changes else content, path)
    return PygFile(path=path)


@pytest.mark.parametrize("changes", [{}, {"edge_weight": [0.5, 2.0]}])
def test_pyg_file(tmp_path, changes):
    import torch

    dataset = save(tmp_path / "g.pt", **{key: torch.tensor(value) for key, value in changes.items()})
    graph = dataset.load(None, tmp_path)
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.y.tolist() == [0, 1, -1]
    assert graph.role.tolist() == [Role.TRAIN, Role.NONE, Role.NONE]
    assert (graph.edge_weight is None) == (not changes)
    assert graph.num_classes == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "has no y"),
        ({"y": [0, 1]}, r"y has shape \[2\]"),
        ({"y": [0.0, 1.0, 1.0]}, r"y has shape \[3\] and type float32"),
        ({"x": [1.0, 2.0, 3.0]}, r"x has shape \[3\]"),
        ({"x": [[1.0], [float("inf")], [3.0]]}, "features of node row 2 hold inf; replace"),
        ({"edge_index": [[0, 1], [1, 3]]}, r"edge 2 joins \[1, 3\] but nodes are 0 to 2"),
        ({"edge_index": [[0, 1]]}, r"edge_index has shape \[1, 2\]"),
        ({"edge_weight": [1.0]}, r"edge_weight has shape \[1\]"),
        ({"edge_weight": [1.0, -1.0]}, "weight of edge row 2 is -1"),
        ({"edge_weight": [1j, 1j]}, "edge_weight has shape .* and type complex64"),
        ({"x": [[1j], [2j], [3j]]}, "x has shape .* and type complex64"),
        ({"x": [[1.0], [float("nan")], [3.0]]}, "features of node row 2 hold nan; replace"),
        ({"edge_index": [[0.0, 1.0], [1.0, 2.0]]}, "edge_index has shape .* and type float32"),
        ({"edge_index": [[True, False], [False, True]]}, "edge_index has shape .* and type bool"),
        ({"y": [0, 1, 2**62]}, f"label of node row 3 is {2**62}; number classes from 0"),
        ({"y": [0, -2, 1]}, "label of node row 2 is -2"),
        ({"y": [-1, -1, -1]}, "no node has a label"),
        ({"train_mask": [True, False]}, r"train_mask has shape \[2\] and type bool; save \[3\] of true or false"),
        ({"val_mask": [[True], [False], [True]]}, r"val_mask has shape \[3, 1\]"),
        ({"test_mask": [True, False, True]}, "test_mask marks node row 1 as another mask does"),
    ],
)
def test_a_bad_pyg_file_is_refused(tmp_path, changes, message):
    import torch

    tensors = {key: None if value is None else torch.tensor(value) for key, value in changes.items()}
    with pytest.raises(ConfigError, match=message):
        save(tmp_path / "g.pt", **tensors).load(None, tmp_path)


@pytest.mark.parametrize("kind", ["bfloat16", "sparse", "quantized", "meta"])
def test_a_tensor_that_numpy_cannot_hold_is_refused(tmp_path, kind):
    import torch

    x = torch.ones(3, 2)
    tensors = {
        "bfloat16": lambda: x.bfloat16(),
        "sparse": lambda: x.to_sparse(),
        "quantized": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "meta": lambda: x.to("meta"),
    }
    with pytest.raises(
        ConfigError, match=r"g\.pt: x is a tensor of type torch\.\w+ and layout|which could run any code"
    ):
        save(tmp_path / "g.pt", x=tensors[kind]()).load(None, tmp_path)


def test_a_pyg_file_with_gradients_and_unused_tensors(tmp_path):
    import torch

    x = torch.ones(3, 2, requires_grad=True)
    graph = save(tmp_path / "g.pt", x=x, other=torch.ones(2).bfloat16(), pos=torch.eye(2).to_sparse()).load(
        None, tmp_path
    )
    assert graph.x.tolist() == [[1, 1]] * 3


def test_a_pyg_file_of_one_node(tmp_path):
    import torch

    tensors = {"x": torch.ones(1, 2), "edge_index": torch.empty(2, 0, dtype=torch.long), "y": torch.tensor([[0]])}
    graph = save(tmp_path / "g.pt", **tensors, train_mask=torch.tensor([True])).load(None, tmp_path)
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (1, 0, 1)


def test_a_pyg_file_without_a_proper_store_is_refused(tmp_path):
    import torch
    from torch_geometric.data import Data

    data = Data()
    data.__dict__["_store"] = [1]
    torch.save(data, tmp_path / "g.pt")
    with pytest.raises(ConfigError, match=r"g\.pt"):
        PygFile(path=tmp_path / "g.pt").load(None, tmp_path)


class Malicious:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (self.mark.touch, ())


def test_a_pyg_file_with_anything_but_tensors_is_not_run(tmp_path, recwarn):
    import torch

    torch.save({"x": Malicious(tmp_path / "ran")}, tmp_path / "torch.pt")
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps(Malicious(tmp_path / "ran")))
    (tmp_path / "text.pt").write_text("nothing")
    for name in ("torch.pt", "pickle.pt", "text.pt"):
        with pytest.raises(ConfigError, match="which could run any code; save a Data object"):
            PygFile(path=tmp_path / name).load(None, tmp_path)
    assert not (tmp_path / "ran").exists()
    assert not recwarn.list
    with pytest.raises(ConfigError, match="cannot be read"):
        PygFile(path=tmp_path / "absent.pt").load(None, tmp_path)


def test_the_fingerprint_of_a_pyg_file_follows_its_content(tmp_path):
    dataset = save(tmp_path / "g.pt")
    before = dataset.fingerprint(None, tmp_path)
    np.savez(tmp_path / "g.pt.npz", x=1)
    (tmp_path / "g.pt").write_bytes((tmp_path / "g.pt.npz").read_bytes())
    assert dataset.fingerprint(None, tmp_path) != before
