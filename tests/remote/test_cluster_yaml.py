"""The launcher file is one that Ray takes, and installs what the package needs in the versions of the tests."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CLUSTER = yaml.safe_load((REPOSITORY / "cluster.yaml").read_text(encoding="utf-8"))


def test_it_follows_rays_schema():
    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(CLUSTER, schema)


def test_it_has_a_head_and_gpu_workers():
    types = CLUSTER["available_node_types"]
    assert types[CLUSTER["head_node_type"]]["resources"] == {"CPU": 0}
    assert [kind["resources"]["GPU"] for name, kind in types.items() if name != CLUSTER["head_node_type"]] == [1]


def test_it_installs_what_the_package_needs_in_the_pinned_versions(tmp_path):
    (listing,) = [command for command in CLUSTER["setup_commands"] if "tomllib" in command]
    folder = tmp_path / "fedgraph-sim"
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    for remote, local in CLUSTER["file_mounts"].items():
        if remote.startswith("~/fedgraph-sim/"):
            shutil.copy(REPOSITORY / local, folder / Path(remote).name)
    subprocess.run(["sh", "-c", listing], env={"HOME": str(tmp_path)}, check=True)
    needs = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    assert (folder / "requirements.txt").read_text().splitlines() == needs
    (install,) = [command for command in CLUSTER["setup_commands"] if "pip install" in command]
    assert "-c ~/fedgraph-sim/constraints.txt -r ~/fedgraph-sim/requirements.txt" in install
    pinned = {normal(line.split("==")[0]) for line in (folder / "constraints.txt").read_text().splitlines()}
    missing = {normal(re.split(r"[><=\[]", need)[0]) for need in needs} - pinned
    assert not missing


def normal(name):
    """Return a package's name as all tools write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_nothing_listens_to_other_machines_without_a_token():
    start = " ".join(CLUSTER["head_start_ray_commands"])
    assert "--dashboard-host=127.0.0.1" in start
    assert any("RAY_AUTH_MODE=token" in command for command in CLUSTER["setup_commands"])
    assert "~/.ray/auth_token" in CLUSTER["file_mounts"]
