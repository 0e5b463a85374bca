import numpy as np
import pytest

from fedgraph_sim.datasets.store import PartitionStore
from fedgraph_sim.engine.matrices import partition_matrices, shades


def test_an_image_goes_from_black_to_white():
    image = shades(np.array([[-1.0, 0.0], [1.0, 3.0]]))
    assert image.shape == (256, 256)
    assert image.dtype == np.uint8
    assert np.unique(image[:128, :128]).tolist() == [0]
    assert np.unique(image[:128, 128:]).tolist() == [63]
    assert np.unique(image[128:, 128:]).tolist() == [255]


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_an_image_of_equal_values_is_black(value):
    assert shades(np.array([[value]])).max() == 0


def test_many_clients_have_a_pixel_each():
    assert shades(np.zeros((300, 300))).shape == (300, 300)


def test_an_image_may_be_wider_than_high():
    assert shades(np.zeros((2, 128))).shape == (4, 256)


def test_the_partition_tells_label_similarity_and_missing_edges(make_graph, tmp_path):
    graph = make_graph(5, [(0, 1), (1, 2), (2, 3), (0, 4)], both_ways=True, y=np.array([0, 0, 0, 1, -1]))
    members = [np.array([0, 1]), np.array([2, 3]), np.array([4])]
    store = PartitionStore.create(tmp_path / "store", graph, members, dataset="d", partition="p")
    labels, edges = partition_matrices(store.info)
    assert (labels.name, labels.round, labels.clients) == ("label_similarity", 0, (0, 1, 2))
    np.testing.assert_allclose(labels.values, [[1, 0.5**0.5, 0], [0.5**0.5, 1, 0], [0, 0, 0]], rtol=1e-6)
    assert edges.name == "missing_edges"
    assert edges.values.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
