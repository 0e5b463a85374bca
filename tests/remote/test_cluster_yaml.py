"""The launcher file is one that Ray takes, and installs what the package needs in the versions of the tests."""

import json
import re
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


def test_it_installs_what_the_package_needs_in_the_pinned_versions():
    (install,) = [command for command in CLUSTER["setup_commands"] if "pip install" in command]
    names = re.findall(r'"?([\w\[\]-]+)"?', install.split("constraints.txt")[1])
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert sorted(names) == sorted(re.split(r"[><=]", need)[0] for need in project["dependencies"])
    assert "-c ~/fedgraph-sim/constraints.txt" in install
    assert CLUSTER["file_mounts"]["~/fedgraph-sim/constraints.txt"] == "constraints.txt"
    pinned = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()
        for line in (REPOSITORY / "constraints.txt").read_text().splitlines()
    }
    assert {name.split("[")[0] for name in names} <= pinned


def test_nothing_listens_to_other_machines_without_a_token():
    start = " ".join(CLUSTER["head_start_ray_commands"])
    assert "--dashboard-host=127.0.0.1" in start
    assert any("RAY_AUTH_MODE=token" in command for command in CLUSTER["setup_commands"])
    assert "~/.ray/auth_token" in CLUSTER["file_mounts"]
