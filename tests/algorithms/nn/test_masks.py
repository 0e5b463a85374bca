import torch

from fedgraph_sim.algorithms.nn.masks import initial_masks, masked, only_masks, pruned, sparsity, without_masks

WEIGHTS = {
    "conv1.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "conv1.bias": torch.tensor([5.0, 6.0]),
    "head.self.weight": torch.tensor([[7.0, -8.0]]),
}
MASKS = {
    "conv1.weight.mask": torch.tensor([[0.5, -0.05], [-2.0, 0.0]]),
    "head.self.weight.mask": torch.tensor([[0.01, 1.0]]),
}


def test_each_matrix_has_a_mask_of_ones_and_no_bias_has():
    masks = initial_masks(WEIGHTS)
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "conv1.weight.mask": [[1, 1], [1, 1]],
        "head.self.weight.mask": [[1, 1]],
    }
    assert without_masks(WEIGHTS | MASKS) == WEIGHTS
    assert only_masks(WEIGHTS | MASKS) == MASKS


def test_masked_multiplies_and_leaves_out_what_is_within_the_threshold():
    everything = masked(WEIGHTS | MASKS)
    torch.testing.assert_close(everything["conv1.weight"], torch.tensor([[0.5, -0.1], [-6.0, 0.0]]))
    assert everything["conv1.bias"] is WEIGHTS["conv1.bias"]
    torch.testing.assert_close(everything["head.self.weight"], torch.tensor([[0.07, -8.0]]))
    cut = masked(WEIGHTS | MASKS, threshold=0.1)
    assert cut["conv1.weight"].tolist() == [[0.5, 0], [-6, 0]]
    assert cut["head.self.weight"].tolist() == [[0, -8]]
    assert set(cut) == set(WEIGHTS)


def test_pruned_is_the_weights_themselves_where_they_count():
    cut = pruned(WEIGHTS | MASKS, threshold=0.1)
    assert cut["conv1.weight"].tolist() == [[1, 0], [3, 0]]
    assert cut["conv1.bias"].tolist() == [5, 6]
    assert cut["head.self.weight"].tolist() == [[0, -8]]
    assert set(cut) == set(WEIGHTS)


def test_sparsity_counts_the_entries_within_the_threshold():
    pairs = sparsity(WEIGHTS | MASKS, threshold=0.02)
    assert {name: pair.tolist() for name, pair in pairs.items()} == {
        "conv1_sparsity": [1, 4],
        "head.self_sparsity": [1, 2],
    }
    assert sparsity(WEIGHTS, threshold=0.02) == {}


def test_gradients_reach_weights_and_masks():
    def total(weights):
        return sum(leaf.sum() for leaf in masked(weights).values())

    gradient = torch.func.grad(total)(WEIGHTS | MASKS)
    for name, mask in MASKS.items():
        matrix = name.removesuffix(".mask")
        assert torch.equal(gradient[matrix], mask)
        assert torch.equal(gradient[name], WEIGHTS[matrix])
