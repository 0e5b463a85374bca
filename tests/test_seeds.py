import numpy as np

from fedgraph_sim.seeds import keys_for


def test_keys_are_splitmix64():
    assert keys_for(0, np.array([0])).tolist() == [0xE220A8397B1DCDAF >> 1]
    assert keys_for(7, np.array([3, 5])).tolist() == [int(keys_for(7, np.array([k]))[0]) for k in (3, 5)]
    assert len(set(keys_for(7, np.arange(1000)).tolist())) == 1000
