from fedgraph_sim.engine.tree import leaves, tree_map


def test_tree_map_goes_over_several_trees():
    tree, other = {"a": 1, "b": {"c": 2, "d": None}}, {"a": 10, "b": {"c": 20, "d": None}}
    assert tree_map(lambda x, y: x + y, tree, other) == {"a": 11, "b": {"c": 22, "d": None}}
    assert tree_map(lambda x: x, None) is None


def test_leaves_are_named_by_their_path():
    assert list(leaves({"a": 1, "b": {"head.bias": 2, "d": None}})) == [("a", 1), ("b/head.bias", 2)]
