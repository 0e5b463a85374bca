"""The three citation networks of Planetoid.

Sen et al., Collective Classification in Network Data, 2008; Yang et al., Revisiting Semi-Supervised Learning with
Graph Embeddings, 2016.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedgraph_sim.datasets import raw
from fedgraph_sim.datasets.graph import Graph, Role
from fedgraph_sim.datasets.graph_dataset import GraphDataset
from fedgraph_sim.errors import ConfigError

URL = "https://github.com/kimiyoung/planetoid/raw/master/data"


class Planetoid(GraphDataset):
    """Cora, CiteSeer or PubMed; nodes are papers, features bags of words, `own` roles the public split."""

    summary: ClassVar[str] = "citation network, features are words of the paper, classes are topics"

    name: Literal["Cora", "CiteSeer", "PubMed"] = Field(description="which of the three networks")

    def files(self, data_dir: Path | None, cache_dir: Path) -> Sequence[Path]:
        """Return the paths of the published files."""
        places = (f"Planetoid/{self.name}/raw", f"{self.name}/raw", self.name, ".")
        files = tuple(CHECKSUMS[self.name])
        folder = raw.obtain(self.name, files=files, places=places, url=URL, data_dir=data_dir, cache_dir=cache_dir)
        return [folder / file for file in files]

    def read(self, data_dir: Path | None, cache_dir: Path) -> Graph:
        """Return the network as PyTorch Geometric reads it."""
        folder = self.files(data_dir, cache_dir)[0].parent
        _verify(self.name, folder)
        return _read(folder, self.name)


def _verify(name: str, folder: Path) -> None:
    """Refuse files other than the published ones: they are pickles, which may run any code when read."""
    for file, checksum in CHECKSUMS[name].items():
        if raw.sha256(folder / file) != checksum:
            raise ConfigError(
                f"dataset.name={name!r}: {folder / file} is a pickle that differs from the published file and is not"
                f" read; replace it by the one from {URL}"
            )


def _read(folder: Path, name: str) -> Graph:
    from torch_geometric.io import read_planetoid_data

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the published pickles name modules that SciPy has renamed since
        data = read_planetoid_data(str(folder), name.lower())
    role = np.zeros(data.num_nodes, dtype=np.int8)
    for value, mask in ((Role.TRAIN, data.train_mask), (Role.VAL, data.val_mask), (Role.TEST, data.test_mask)):
        role[mask.numpy()] = value
    y = data.y.numpy()
    return Graph(
        x=data.x.numpy(),
        edge_index=data.edge_index.numpy(),
        edge_weight=None,
        y=y,
        role=role,
        node_id=np.arange(len(y)),
        num_classes=int(y.max()) + 1,
    )


CHECKSUMS = {
    "Cora": {
        "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    },
    "CiteSeer": {
        "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    },
    "PubMed": {
        "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    },
}
