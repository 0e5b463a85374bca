import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from fedgraph_sim.results.page import printed, report_page
from fedgraph_sim.results.run_folder import find_runs, load_run

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """What a page holds; fails where tags do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.figures, self.headings, self.references = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.references += [attributes[name] for name in ("href", "src", "xlink:href") if name in attributes]
        if tag == "figure":
            self.figures.append(attributes["aria-label"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)


@pytest.fixture(scope="module")
def personalised(real_runs):
    return report_page(find_runs([real_runs / "fedpub-0"]))


def test_a_run_with_everything(personalised, real_runs):
    page = Page(personalised)
    assert page.headings == [
        *("fedpub-0", "Training", "Similarity of clients", "Measured by the algorithm"),
        *("Partition", "Clients", "Time", "Configuration"),
    ]
    assert page.figures == [
        *("accuracy", "loss", "accuracy against bytes", "similarity over rounds", "label similarity", "missing edges"),
        *("sparsity", "client sizes", "label distribution", "parts of a round"),
    ]
    run = load_run(real_runs / "fedpub-0")
    assert f"<dd>{100 * run.summary['test_accuracy']:.2f} %</dd>" in personalised
    assert f"fedgraph-sim run {run.folder}".split("/")[-1] in personalised
    assert "hidden = 8" in personalised


def test_the_page_needs_nothing_but_itself(personalised):
    page = Page(personalised)
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert not re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org/)", personalised)
    assert len(page.ids) == len(set(page.ids))
    assert len(personalised) < 500_000


def test_colours_follow_the_theme(personalised):
    drawings = "".join(re.findall(r"<svg.*?</svg>", personalised, re.DOTALL))
    assert set(re.findall(r"var\(--[a-z]+", drawings)) == {"var(--ink", "var(--faint", "var(--series"}
    assert not re.findall(r"#010[12]", drawings), "a stand-in for a colour is left"
    assert "<text" in drawings, "text is not text"


def test_a_run_of_an_algorithm_that_compares_nobody(real_runs):
    page = Page(report_page(find_runs([real_runs / "fedavg-1"])))
    assert page.headings == ["fedavg-1", "Training", "Partition", "Clients", "Time", "Configuration"]
    assert "edges cut between clients" in page.figures


def test_several_runs_are_compared_and_each_is_shown(real_runs):
    page = Page(report_page(find_runs([real_runs / "fedavg-0", real_runs / "fedavg-1"])))
    assert page.headings[:4] == ["2 runs", "Comparison", "Means over seeds", "All runs"]
    assert page.figures[:3] == ["test accuracy", "test loss", "test accuracy against bytes"]
    assert [name for name in page.headings if name.startswith("fed")] == ["fedavg-0", "fedavg-1"]
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize("last_round", [0, 1, 3])
def test_a_run_under_way(make_run, last_round):
    run = make_run("r", summary={})
    run.rounds[:last_round].to_parquet(run.folder / "rounds.parquet")
    text = report_page([load_run(run.folder)])
    assert '<p class="status unfinished">unfinished' in text
    assert ("Training" in Page(text).headings) == (last_round > 0)


def test_a_failed_run_says_why_and_nothing_is_taken_for_markup(make_run):
    run = make_run("<b>", summary={"status": "failed", "error": "client 3 <script>alert(1)</script>"})
    text = report_page([run])
    assert "failed: client 3 &lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<h1>&lt;b&gt;</h1>" in text


def test_whatever_an_algorithm_measures_is_shown(make_run):
    """Sections follow from what the files hold: these are names that no algorithm of the package has."""
    run = make_run("r", clients=3)
    rounds = run.rounds.assign(generator_loss=[1.0, 0.5, 0.2], judge_loss=[2.0, None, 1.0], test_f1=[0.1, 0.2, 0.3])
    rounds.to_parquet(run.folder / "rounds.parquet")
    pairs = np.array([(i, j) for i in range(3) for j in range(3)])
    matrix = {"round": 2, "name": "influence", "row": pairs[:, 0], "column": pairs[:, 1], "value": np.arange(9.0)}
    pd.DataFrame(matrix).to_parquet(run.folder / "matrices.parquet")
    curves = {"sensor": [0, 0, 2, 2], "time": [0, 1, 0, 1], "reading": [1.0, 2.0, 3.0, 4.0], "forecast": [1.0] * 4}
    pd.DataFrame({"round": [2] * 4, **curves}).to_parquet(run.folder / "forecasts.parquet")
    page = Page(report_page([load_run(run.folder)]))
    assert page.headings[1:5] == ["Training", "Influence of clients", "Measured by the algorithm", "Forecasts"]
    assert [
        name for name in page.figures if name in ("f1", "loss", "influence over rounds", "sensor 0", "sensor 2")
    ] == [*("loss", "f1", "influence over rounds", "loss", "sensor 0", "sensor 2")]


def test_thousands_of_clients(make_run):
    count = 2000
    run = make_run("r", clients=count)
    info = {
        "dataset": "d",
        "partition": "p",
        "num_clients": count,
        "num_classes": 2,
        "num_nodes": count,
        "num_edges": 0,
    }
    info |= dict.fromkeys(("nodes", "train", "val", "test"), [1] * count) | {"class_counts": [[1, 0]] * count}
    (run.folder / "partition.json").write_text(str(info | {"edges_lost": 0}).replace("'", '"'))
    text = report_page([load_run(run.folder)])
    assert "client sizes" in Page(text).figures
    assert len(text) < 1_000_000


def test_a_partition_of_another_kind_of_data(make_run):
    run = make_run("r")
    (run.folder / "partition.json").write_text('{"num_clients": 2, "steps": [7, 8], "dataset": "s", "partition": "p"}')
    text = report_page([load_run(run.folder)])
    assert '<button type="button">steps</button>' in text
    assert "Partition" in Page(text).headings


def test_the_configuration_is_shown_as_it_is(make_run):
    run = make_run("r")
    with (run.folder / "config.toml").open("a") as file:
        file.write('note = "a < b & c"\n')
    assert "note = &#34;a &lt; b &amp; c&#34;" in report_page([load_run(run.folder)])


@pytest.mark.parametrize(("value", "text"), [(None, ""), (float("nan"), ""), (0.125, "0.12"), (3, "3"), ("a", "a")])
def test_cells(value, text):
    assert printed(value) == text


def test_of_many_runs_only_the_comparison_is_shown(make_run):
    runs = [make_run(f"run-{seed}", seed=seed) for seed in range(7)]
    page = Page(report_page(runs))
    assert page.headings == ["7 runs", "Comparison", "Means over seeds", "All runs"]


def test_runs_without_a_loss_have_no_empty_picture_of_it(make_run, recwarn):
    runs = [make_run(name) for name in ("a", "b")]
    for run in runs:
        run.__dict__["rounds"] = run.rounds.drop(columns="test_loss")
    assert Page(report_page(runs)).figures[:2] == ["test accuracy", "test accuracy against bytes"]
    assert [str(warning.message) for warning in recwarn.list] == []


def test_runs_of_other_metrics_have_their_own_figures_and_units(make_run):
    accurate, forecast = make_run("a", 0.64), make_run("b", 1.9)
    forecast.__dict__["metric"] = "rmse"
    forecast.__dict__["rounds"] = forecast.rounds.rename(
        columns={"test_accuracy": "test_rmse", "val_accuracy": "val_rmse"}
    )
    for runs in ([accurate, forecast], [forecast, accurate]):
        page = " ".join(report_page(runs).split())
        assert "accuracy %" in page
        assert ">64.00<" in page
        assert ">1.90<" in page
        assert "190.00" not in page
