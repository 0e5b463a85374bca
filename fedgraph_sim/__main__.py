"""``python -m fedgraph_sim``, which is ``fedgraph-sim``."""

from fedgraph_sim.cli.main import main

if __name__ == "__main__":
    main(prog_name="fedgraph-sim")
