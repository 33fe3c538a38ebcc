"""Several audits on one page: what it shows is what the single reports say."""

from dataclasses import replace

from farfield.audit.fields.quality import Detected
from farfield.audit.fields.repair import BeforeAfter
from farfield.audit.fields.verdict import BY_GUARD
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


def test_a_guarded_model_is_shown_as_it_is_behind_its_guard(tmp_path):
    """The sections of its audit are about the model inside, which may be blind everywhere."""
    inside = replace(samples.tabular(), detection=(detected("predictive_entropy", 0.017),))
    rows = {"accuracy": (0.9, 0.9), "AUROC: ring": (0.017, 0.987)}
    guarded = replace(
        inside,
        verdict=replace(inside.verdict, blind=0.0, family=BY_GUARD, sentence="By proof."),
        guard=BeforeAfter("A promise.", rows, {}),
    )
    shown = {"Inside": ("1.html", inside), "Guarded": ("2.html", guarded)}
    page = write_comparison(shown, tmp_path / "i.html", title="Two").read_text("utf-8")
    first, second = page.split('href="2.html"')[-2:]
    assert "1.7% (1.7% to 1.7%), Total uncertainty" in first
    assert "98.7%, Confidence" in second
    assert page.count("0%, by proof") == len(inside.families)
