"""The algorithms by name."""

from fedgraph_sim.algorithms.centralized import Centralized
from fedgraph_sim.algorithms.cnfgnn import Cnfgnn
from fedgraph_sim.algorithms.fedavg import FedAvg
from fedgraph_sim.algorithms.fedgnn import FedGnn
from fedgraph_sim.algorithms.fedgru import FedGru
from fedgraph_sim.algorithms.fedmlp import FedMlp
from fedgraph_sim.algorithms.fedmtl import FedMtl
from fedgraph_sim.algorithms.fedper import FedPer
from fedgraph_sim.algorithms.fedprox import FedProx
from fedgraph_sim.algorithms.fedpub import FedPub
from fedgraph_sim.algorithms.fedsage import FedSage
from fedgraph_sim.algorithms.fedsage_plus import FedSagePlus
from fedgraph_sim.algorithms.gcfl import Gcfl
from fedgraph_sim.algorithms.gfl_appnp import GflAppnp
from fedgraph_sim.algorithms.globsage import GlobSage
from fedgraph_sim.algorithms.gru_central import GruCentral
from fedgraph_sim.algorithms.gru_gn_central import GruGnCentral
from fedgraph_sim.algorithms.gru_gn_split import GruGnSplit
from fedgraph_sim.algorithms.gru_local import GruLocal
from fedgraph_sim.algorithms.local import Local
from fedgraph_sim.algorithms.locsage import LocSage
from fedgraph_sim.algorithms.locsage_plus import LocSagePlus
from fedgraph_sim.algorithms.majority import Majority
from fedgraph_sim.algorithms.mlp import Mlp
from fedgraph_sim.engine.algorithm import Algorithm

ALGORITHMS: dict[str, type[Algorithm]] = {
    "local": Local,
    "centralized": Centralized,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedpub": FedPub,
    "fedper": FedPer,
    "gcfl": Gcfl,
    "fedgnn": FedGnn,
    "gfl_appnp": GflAppnp,
    "fedmlp": FedMlp,
    "mlp": Mlp,
    "majority": Majority,
    "fedsage": FedSage,
    "fedsage_plus": FedSagePlus,
    "locsage": LocSage,
    "locsage_plus": LocSagePlus,
    "globsage": GlobSage,
    "cnfgnn": Cnfgnn,
    "fedgru": FedGru,
    "fedmtl": FedMtl,
    "gru_local": GruLocal,
    "gru_central": GruCentral,
    "gru_gn_central": GruGnCentral,
    "gru_gn_split": GruGnSplit,
}

BASELINES = {
    "fedavg": "local",
    "fedsage": "locsage",
    "fedsage_plus": "fedsage",
    "locsage": "fedsage",
    "locsage_plus": "locsage",
    "gfl_appnp": "fedmlp",
    "fedmlp": "mlp",
    "mlp": "gfl_appnp",
    "majority": "gfl_appnp",
    "cnfgnn": "fedgru",
    "fedmtl": "fedgru",
    "fedgru": "gru_local",
    "gru_local": "fedgru",
    "gru_gn_split": "cnfgnn",
}
"""What to compare an algorithm with first; every other with the plain average, ``fedavg``."""
