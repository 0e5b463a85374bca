"""Time series: windows and roles, the store, and the sources."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from scipy import sparse

from fedgraph_sim.datasets.diffusion import Diffusion
from fedgraph_sim.datasets.metr_la_pems_bay import TrafficNetwork
from fedgraph_sim.datasets.series_dataset import gaussian_kernel
from fedgraph_sim.datasets.series_split import ChronologicalSplit
from fedgraph_sim.datasets.series_store import SeriesStore
from fedgraph_sim.datasets.traffic import Traffic
from fedgraph_sim.errors import ConfigError

THREE = {name: [1.0] * 40 for name in ("101", "102", "103")}
NAMES = {"dataset": "d", "partition": "sensor"}


def test_windows_are_split_in_the_order_of_time(make_series):
    series = make_series(length=100, history=4, horizon=3, split={"stride": 2})  # 94 windows
    train, val, test = (series.starts[role] for role in ("train", "val", "test"))
    assert train.tolist() == [*range(0, 66, 2)]
    assert val.tolist() == [*range(66, 75)]
    assert test.tolist() == [*range(75, 94)]
    assert make_series(length=100, split={"train": 0.01, "val": 0, "test": 0.5}).starts["val"].size == 0


@pytest.mark.parametrize(
    ("split", "seen"),
    [
        ({}, [0, 1, 2, 3]),
        ({"seen": 0.5, "seen_by": "order"}, [0, 1]),
        ({"seen": 0.5}, [0, 2]),  # the beginnings of both roads lie in the west
        ({"unseen": ("road-0-sensor-1",)}, [0, 2, 3]),
    ],
)
def test_seen_sensors(make_series, split, seen):
    assert np.flatnonzero(make_series(split=split).is_seen).tolist() == seen


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"unseen": ("x",)}, "names 'x', which is no sensor"),
        ({"unseen": tuple(f"road-{r}-sensor-{s}" for r in (0, 1) for s in (0, 1))}, "names every sensor"),
        ({"train": 0.001}, "is none; raise split.train"),
    ],
)
def test_splits_that_cannot_be(make_series, split, message):
    with pytest.raises(ConfigError, match=message):
        make_series(split=split)


def test_longitude_needs_positions(make_series):
    from dataclasses import replace

    with pytest.raises(ConfigError, match="has no positions"):
        ChronologicalSplit(seen=0.5).apply(replace(make_series(), position=None), 0)


@pytest.mark.parametrize("members", [[[0], [1], [2], [3]], [[0, 1, 2, 3]], [[3, 1], [0, 2]]])
def test_the_store_gives_back_what_was_written(make_series, tmp_path, members):
    series = make_series(missing=0.2, split={"unseen": ("road-1-sensor-0",)})
    nodes = [np.array(part) for part in members]
    store = SeriesStore.create(tmp_path / "s", series, nodes, **NAMES)
    store = SeriesStore(store.folder)
    assert store.is_complete()
    for client, part in store.load(range(len(members))).items():
        expected = series.part(nodes[client])
        for name in ("values", "observed", "time_of_day", "node_id", "is_seen"):
            assert np.array_equal(getattr(part, name), getattr(expected, name)), name
        assert (part.adjacency != expected.adjacency).nnz == 0
        assert part.names == expected.names
        assert all(np.array_equal(part.starts[role], series.starts[role]) for role in series.starts)
    assert store.whole().num_nodes == 4
    owner = np.zeros((4, len(members)))
    for client, part in enumerate(members):
        owner[part, client] = 1
    between = owner.T @ series.adjacency.toarray() @ owner
    assert np.allclose(store.client_graph().toarray(), between - np.diag(np.diag(between)))
    assert store.info.missing == tuple(int((~series.observed[part]).sum()) for part in nodes)


def test_a_damaged_store_is_named(make_series, tmp_path):
    store = SeriesStore.create(tmp_path / "s", make_series(), [np.arange(4)], **NAMES)
    (store.folder / "shared.npz").write_bytes(b"nothing")
    assert not store.is_complete()
    with pytest.raises(ConfigError, match="is damaged"):
        SeriesStore(store.folder).load([0])


def test_waves_travel_along_roads():
    options = {"num_roads": 1, "road_length": 3, "num_junctions": 0, "length": 600, "noise": 0.0, "delay": 4}
    series = Diffusion(**options, waves=2.0).read(None, Path())
    speeds = series.values.astype(float)
    still = Diffusion(**options, waves=0.0).read(None, Path()).values.astype(float)
    waves = still - speeds  # what is above the rhythm; the rhythm's size is drawn after the waves
    now, later = speeds[1, :-4], speeds[2, 4:]
    assert np.corrcoef(now, later)[0, 1] > 0.8 > np.corrcoef(speeds[1, 4:], later)[0, 1]
    assert waves.shape == (3, 600)
    assert np.array_equal(series.values, Diffusion(**options, waves=2.0).read(None, Path()).values)
    assert series.adjacency.toarray().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]  # row = target


def test_the_gaussian_kernel_by_hand():
    distances = np.array([[0, 1, np.inf], [1, 0, 3], [np.inf, 3, 0]], float)
    spread = np.array([0, 1, 1, 0, 3, 3, 0]).std()
    weight = np.exp(-np.square(distances / spread))
    expected = np.where(weight >= 0.1, weight, 0)
    assert np.allclose(gaussian_kernel(distances, 0.1).toarray(), expected)
    assert (expected == 0).sum() == 4


@pytest.fixture
def own(tmp_path):
    """Write series of 3 sensors, 40 steps, and links; return the options of the data set."""

    def write(*, end=".csv", links=None, series=None, sensors=None):
        rng = np.random.default_rng(0)
        table = series or {name: rng.normal(50, 5, 40) for name in ("101", "102", "103")}
        tables = {"series": table, "links": links or {"source": [101, 102], "target": [102, 103], "weight": [0.5, 2.0]}}
        for name, columns in (tables | ({"sensors": sensors} if sensors else {})).items():
            if end == ".parquet":
                pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
            else:
                rows = zip(*columns.values(), strict=True)
                lines = [",".join(columns), *(",".join("" if v is None else str(v) for v in row) for row in rows)]
                (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
        return {"path": tmp_path, "history": 4, "horizon": 2}

    return write


@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_own_series(own, end):
    series = Traffic(**own(end=end)).load(None, Path())
    assert series.names == ("101", "102", "103")
    assert series.values.shape == (3, 40)
    assert series.adjacency.toarray().tolist() == [[0, 0, 0], [0.5, 0, 0], [0, 2.0, 0]]
    assert np.allclose(series.time_of_day[:3], [0, 5 / 1440, 10 / 1440])
    assert series.observed.all()


def test_own_series_with_missing_readings_times_distances_and_places(own):
    times = [datetime(2026, 1, 1, 23, 50) + timedelta(minutes=5 * step) for step in range(40)]
    series = {"time": times, "a": [None, *range(39)], "b": [float(step) for step in range(40)]}
    links = {"source": ["a", "b"], "target": ["b", "a"], "distance": [10.0, 200.0]}
    sensors = {"sensor": ["b", "a"], "longitude": [1.0, 2.0], "latitude": [0.0, 0.0]}
    options = own(end=".parquet", series=series, links=links, sensors=sensors)
    loaded = Traffic(**options, zero_is_missing=True).load(None, Path())
    assert loaded.observed[0, :3].tolist() == [False, False, True]
    assert loaded.values[0, 0] == 0
    assert np.allclose(loaded.time_of_day[:3] * 1440, [23 * 60 + 50, 23 * 60 + 55, 0])
    assert np.allclose(loaded.adjacency.toarray(), gaussian_kernel(np.array([[0, 200.0], [10, 0]]), 0.1).toarray())
    assert loaded.position.tolist() == [[2, 0], [1, 0]]
    assert np.flatnonzero(ChronologicalSplit(seen=0.5).apply(loaded, 0).is_seen).tolist() == [1]


def test_the_distance_at_which_links_matter_can_be_given(own):
    links = {"source": [101, 102], "target": [102, 103], "distance": [100.0, 110.0]}
    loaded = Traffic(**own(links=links), sigma=100).load(None, Path())
    assert np.allclose(np.diag(loaded.adjacency.toarray(), -1), [np.exp(-1), np.exp(-1.21)])


@pytest.mark.parametrize("end", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"links": {"source": [101], "target": [9], "weight": [1.0]}},
            r"target '9' of row 1 is no sensor in series\.\w+; remove the link or add the sensor",
        ),
        ({"links": {"source": [101], "target": [102], "distance": [-10.0]}}, "distance of row 1 is -10; replace"),
        ({"links": {"source": [101], "target": [102], "weight": [1e300]}}, r"weight of row 1 holds 1e\+300; replace"),
        (
            {"series": {**THREE, "101": [1.0] * 39 + [-1e300]}},
            r"series\.\w+: the reading of sensor 101 in row 40 is -1e\+300; replace",
        ),
        ({"series": {**THREE, "101": [1.0] * 39 + [float("inf")]}}, "reading of sensor 101 in row 40 is inf; replace"),
        ({"series": {"101": []}}, r"series\.\w+ has no rows; write one row per time step"),
        ({"series": {"time": [datetime(2026, 1, 1)]}}, r"series\.\w+ has no column of a sensor"),
        ({"sensors": {"sensor": [], "longitude": [], "latitude": []}}, "has no rows; write one row per sensor"),
        (
            {"links": {"source": [101, 102], "target": [102, 103], "distance": [100.0, 110.0]}},
            "all links have a weight below dataset.threshold=0.1, at distances from 100 to 110; set dataset.sigma",
        ),
        (
            {
                "series": {
                    "time": [datetime(2026, 1, 1, 0, m) for m in (0, 5, 10, 20, 25)],
                    **dict.fromkeys(THREE, [1.0] * 5),
                }
            },
            r"not evenly spaced in time, 2026-01-01 00:10:00 is followed by 2026-01-01 00:20:00; sort them, and add",
        ),
        (
            {"series": {"timestamp": [datetime(2026, 1, 1)], "101": [1.0], "102": [1.0], "103": [1.0]}},
            r"column timestamp is of type timestamp\[\w+\] but must be numeric; call it time",
        ),
        (
            {"series": {"time": [datetime(2026, 1, 1), None], "101": [1.0] * 2, "102": [1.0] * 2, "103": [1.0] * 2}},
            "the time of row 2 is missing; fill it in",
        ),
        (
            {"series": {"time": [datetime(2026, 1, 2), datetime(2026, 1, 1)], **{name: [1.0] * 2 for name in THREE}}},
            "not evenly spaced in time",
        ),
        ({"links": {"source": [101], "target": [102]}}, "neither a column weight nor a column distance"),
        ({"links": {"source": [101], "target": [102], "weight": [-1.0]}}, "weight of row 1 is -1; replace"),
        ({"links": {"from": [101], "target": [102]}}, "has no column source"),
        ({"series": {"a": ["x"] * 40}}, "column a is of type string but must be numeric"),
        ({"series": {"time": [1] * 40, "101": [1.0] * 40, "102": [1.0] * 40, "103": [1.0] * 40}}, "must be timestamps"),
        ({"sensors": {"sensor": [101], "longitude": [1.0], "latitude": [0.0]}}, "has no row for the sensor 102"),
    ],
)
def test_own_files_that_cannot_be_used(own, changes, message, end):
    with pytest.raises(ConfigError, match=message):
        Traffic(**own(end=end, **changes)).load(None, Path())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("series", b"s0,s0,s1\n1,2,3\n", "has several columns named s0; rename or remove all but one"),
        ("links", b"source,source,target,weight\n101,101,102,1\n", "has several columns named source"),
        ("series", b"s\xff,b\n1,2\n", "is not a readable CSV file"),
        ("links", b"source,target,weight,n\xff\n101,102,1,1\n", "is not a readable CSV file"),
        ("links", b"source,target,weight\n\xff,102,1\n", "is not a readable CSV file"),
        ("links", b"", "is not a readable CSV file"),
        ("series", b"s0,s1\n1\n", "is not a readable CSV file"),
    ],
)
def test_csv_files_that_cannot_be_used(own, tmp_path, name, content, message):
    options = own()
    (tmp_path / f"{name}.csv").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Traffic(**options).load(None, Path())


@pytest.mark.parametrize("end", [".csv", ".parquet"])
@pytest.mark.parametrize("value", ["weight", "distance"])
def test_one_sensor_without_links(own, end, value):
    options = own(end=end, series={"a": [*range(40)]}, links={"source": [], "target": [], value: []})
    series = Traffic(**options).load(None, Path())
    assert series.names == ("a",)
    assert series.adjacency.toarray().tolist() == [[value == "distance"]]


def test_names_of_sensors_in_csv_files_are_text_whatever_they_look_like(own):
    names = ("007", "1.10", "2026-01-01", "true")
    links = {"source": names, "target": ("1.10", "2026-01-01", "true", "007"), "weight": [1, 2, 3, 4]}
    sensors = {"sensor": names, "longitude": [1, 2, 3, 4], "latitude": [0] * 4}
    series = Traffic(**own(series={name: [*range(40)] for name in names}, links=links, sensors=sensors)).load(
        None, Path()
    )
    assert series.adjacency.toarray()[[1, 2, 3, 0], [0, 1, 2, 3]].tolist() == [1, 2, 3, 4]


def test_readings_may_be_integers_that_no_float_holds_exactly(own):
    series = Traffic(**own(end=".parquet", series=dict.fromkeys(THREE, [2**53 + 1] * 40)))
    assert series.load(None, Path()).values[0, 0] == 2.0**53


def test_absurd_strides_are_refused():
    with pytest.raises(ValidationError, match="less than or equal to 2147483647"):
        ChronologicalSplit(stride=10**20)


def test_own_files_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"has no series.parquet or series.csv"):
        Traffic(path=tmp_path).load(None, Path())


def test_the_published_hdf5_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = tmp_path / "metr-la"
    folder.mkdir()
    speed = np.random.default_rng(0).normal(60, 5, (40, 2))
    speed[3, 1] = 0
    with h5py.File(folder / "metr-la.h5", "w") as file:
        table = file.create_group("df")
        table["axis0"] = np.array([b"773869", b"767541"])
        table["axis1"] = np.arange(40) * 300 * 10**9
        table["block0_values"] = speed
    lines = ["773869,773869,0.0", "767541,767541,0.0", "773869,767541,500.0", "773869,999999,1.0"]
    (folder / "distances_la_2012.csv").write_text("from,to,cost\n" + "\n".join(lines))
    series = TrafficNetwork(name="metr-la").load(tmp_path, tmp_path)
    assert series.names == ("773869", "767541")
    assert np.allclose(series.values, speed.T, atol=1e-5)
    assert not series.observed[1, 3]
    distances = np.array([[0, np.inf], [500, 0]])
    assert np.allclose(series.adjacency.toarray(), gaussian_kernel(distances, 0.1).toarray())
    assert series.time_of_day[1] == pytest.approx(300 / 86400)


def test_files_that_are_nowhere_and_variants_that_do_not_exist(tmp_path):
    with pytest.raises(ConfigError, match=r"needs metr-la.h5, distances_la_2012.csv"):
        TrafficNetwork(name="metr-la").load(tmp_path, tmp_path)
    for name in ("los_speed.csv", "metr_la_adj_207.npz"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConfigError, match=r"not there, but those of dataset\.variant=week are; use it"):
        TrafficNetwork(name="metr-la").load(tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="variant=67 is not one of metr-la; use full or week"):
        TrafficNetwork(name="metr-la", variant="67").load(tmp_path, tmp_path)


def test_links_are_kept_as_they_are(make_series):
    part = make_series().part(np.array([1, 0]))
    assert isinstance(part.adjacency, sparse.csr_array)
    assert part.adjacency.toarray().tolist() == [[1, 1], [0, 1]]


def test_series_without_a_reading_to_train_on_are_refused(own):
    nothing = {name: [None] * 30 + [1.0] * 10 for name in ("101", "102", "103")}
    series = Traffic(**own(end=".parquet", series=nothing)).load(None, Path())
    with pytest.raises(ConfigError, match="no sensor that trains has a reading in the training steps"):
        ChronologicalSplit().apply(series, 0)
    some = {**nothing, "102": [1.0, *[None] * 39]}
    assert ChronologicalSplit().apply(Traffic(**own(end=".parquet", series=some)).load(None, Path()), 0).is_seen.all()
