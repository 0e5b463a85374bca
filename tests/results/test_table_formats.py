import csv
import io
from dataclasses import replace

from fedgraph_sim.results.comparison import ResultTable
from fedgraph_sim.results.scores import Score
from fedgraph_sim.results.table_formats import comma_separated, latex, markdown

TABLE = ResultTable(
    metric="accuracy",
    head=("algorithm", "csbm_a 5"),
    num_keys=1,
    rows=(
        ("local|x", Score(values={0: 0.5, 1: 0.7}, p=0.01)),
        ("fed_pub", Score(values={0: 0.75}, best=True)),
        ("none", None),
    ),
    notes=("100 % of it",),
)


def test_markdown():
    assert markdown(TABLE) == (
        "| algorithm | csbm_a 5        |\n"
        "| --------- | --------------- |\n"
        "| local\\|x  | 60.00 ± 10.00 † |\n"
        "| fed_pub   | **75.00**       |\n"
        "| none      |                 |\n"
        "\n"
        "- 100 % of it"
    )


def test_latex():
    assert latex(TABLE) == (
        "% needs \\usepackage{booktabs}\n"
        "% 100 % of it\n"
        "\\begin{tabular}{lr}\n"
        "\\toprule\n"
        "algorithm & csbm\\_a 5 \\\\\n"
        "\\midrule\n"
        "local|x & 60.00 $\\pm$ 10.00 $^\\dagger$ \\\\\n"
        "fed\\_pub & \\textbf{75.00} \\\\\n"
        "none &  \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}"
    )


def test_csv():
    first, second = csv.DictReader(io.StringIO(comma_separated(TABLE)))
    assert (first["algorithm"], first["column"], first["seeds"], first["p"], first["best"]) == (
        *("local|x", "csbm_a 5", "2", "0.01", "False"),
    )
    assert (float(first["mean"]), round(float(first["std"]), 9)) == (60.0, 10.0)
    assert (second["mean"], second["std"], second["p"], second["best"]) == ("75.0", "", "", "True")


def test_what_is_no_share_has_four_decimals():
    assert "0.6000 ± 0.1000" in markdown(replace(TABLE, metric="rmse"))
