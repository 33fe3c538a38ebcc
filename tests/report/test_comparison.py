"""Several audits on one page: what it shows is what the single reports say."""

from dataclasses import replace

from farfield.audit.fields import Detected
from farfield.evaluate import Estimate
from farfield.report import write_comparison
from report import sample_audits as samples


def detected(score, auroc):
    number = Estimate(auroc, auroc, auroc, 0.95, "given")
    return Detected("ring", score, "(" in score, number, number, number, 100)


def test_scores_that_say_nothing_about_one_network_do_not_win(tmp_path):
    """Of one network the variance between members is constant, which gives an AUROC of 50%."""
    found = (
        detected("class_variance", 0.5),
        detected("predictive_entropy", 0.017),
        detected("nearest (inputs)", 0.99),
    )
    one = replace(samples.tabular(), detection=found)
    ten = replace(samples.ensemble(), detection=found)
    path = write_comparison({"One": ("1.html", one), "Ten": ("10.html", ten)}, tmp_path / "i.html",
                            title="Two", rows="the 500 points of the training")  # fmt: skip
    first, second = path.read_text("utf-8").split('href="10.html"')[-2:]
    assert "1.7% (1.7% to 1.7%), Total uncertainty" in first
    assert "50% (50% to 50%), Variance between members" in second
    assert "Quality on the 500 points of the training" in path.read_text("utf-8")
