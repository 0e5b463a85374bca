"""Names that a configuration may use."""

from fedgraph_sim.datasets.amazon_coauthor import AmazonCoauthor
from fedgraph_sim.datasets.csbm import Csbm
from fedgraph_sim.datasets.csbm_clients import CsbmDnc, CsbmSc, CsbmSnc
from fedgraph_sim.datasets.dataset import Dataset
from fedgraph_sim.datasets.diffusion import Diffusion
from fedgraph_sim.datasets.folder import Folder
from fedgraph_sim.datasets.heterophilous import Heterophilous
from fedgraph_sim.datasets.karate import Karate
from fedgraph_sim.datasets.metr_la_pems_bay import TrafficNetwork
from fedgraph_sim.datasets.ogbn import OgbnArxiv
from fedgraph_sim.datasets.partitioners.column import Column
from fedgraph_sim.datasets.partitioners.label_dirichlet import LabelDirichlet
from fedgraph_sim.datasets.partitioners.louvain import Louvain
from fedgraph_sim.datasets.partitioners.metis import Metis
from fedgraph_sim.datasets.partitioners.node import Node
from fedgraph_sim.datasets.partitioners.overlap import Overlap
from fedgraph_sim.datasets.partitioners.partitioner import Partitioner
from fedgraph_sim.datasets.partitioners.random import Random
from fedgraph_sim.datasets.partitioners.sensor import Sensor
from fedgraph_sim.datasets.partitioners.whole import Whole
from fedgraph_sim.datasets.planetoid import Planetoid
from fedgraph_sim.datasets.pyg_file import PygFile
from fedgraph_sim.datasets.subcora import SubCora
from fedgraph_sim.datasets.traffic import Traffic

DATASETS: dict[str, type[Dataset]] = {
    "csbm": Csbm,
    "csbm-dnc": CsbmDnc,
    "csbm-snc": CsbmSnc,
    "csbm-sc": CsbmSc,
    "karate": Karate,
    "Cora": Planetoid,
    "CiteSeer": Planetoid,
    "PubMed": Planetoid,
    "subcora": SubCora,
    "Computers": AmazonCoauthor,
    "Photo": AmazonCoauthor,
    "CS": AmazonCoauthor,
    "Physics": AmazonCoauthor,
    "ogbn-arxiv": OgbnArxiv,
    "roman-empire": Heterophilous,
    "amazon-ratings": Heterophilous,
    "minesweeper": Heterophilous,
    "tolokers": Heterophilous,
    "questions": Heterophilous,
    "chameleon": Heterophilous,
    "chameleon-filtered": Heterophilous,
    "squirrel": Heterophilous,
    "squirrel-filtered": Heterophilous,
    "diffusion": Diffusion,
    "metr-la": TrafficNetwork,
    "pems-bay": TrafficNetwork,
    "traffic": Traffic,
    "folder": Folder,
    "pyg-file": PygFile,
}

PARTITIONERS: dict[str, type[Partitioner]] = {
    "metis": Metis,
    "louvain": Louvain,
    "random": Random,
    "label-dirichlet": LabelDirichlet,
    "overlap": Overlap,
    "column": Column,
    "node": Node,
    "sensor": Sensor,
    "whole": Whole,
}
