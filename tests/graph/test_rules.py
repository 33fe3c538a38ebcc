"""One line per operation of the rule table, all against the same slow oracle."""

from collections import defaultdict
from pathlib import Path

import pytest
import torch
from torch import nn

import farfield as ff
from campaigns.drawing import name_of, template
from farfield.exact.matrix import ExactBudget
from farfield.exact.rational import walk_exactly
from farfield.graph.document import rules_page
from farfield.graph.rules import RULES
from growth_cases import GROWN
from oracles import germ_by_floats
from rule_cases import CASES, EXTRA, REWRITTEN, WRITTEN
from saved_programs import check_saved


@pytest.mark.parametrize("target", [*CASES, *EXTRA], ids=name_of)
def test_germs_equal_two_evaluations_far_out(target):
    module, network = template(name_of(target))
    generator = torch.Generator().manual_seed(0)
    origin = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    direction = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    direction[:2, 1:] = 0
    if not isinstance(target, str):
        captured = {step.target for step in network.groups[0].program.steps}
        assert REWRITTEN.get(target, target) in captured
    slope, intercept = germ_by_floats(module, origin, direction, 1e7)
    for certify in (False, True):
        far = ff.at_infinity(network, origin, direction, certify=certify)
        torch.testing.assert_close(far.slope[0], slope, rtol=1e-6, atol=2e-6)
        torch.testing.assert_close(far.intercept[0], intercept, rtol=1e-5, atol=2e-5)
    check_rational_germs(network, far, torch.cat([direction, origin]))
    torch.testing.assert_close(network.logits(origin)[0], module(origin).detach())


def check_rational_germs(network, far, pair):
    """Rational arithmetic takes the same decisions and gives the same numbers."""
    group = network.groups[0]
    value, domain, _ = walk_exactly(group.program, group.instance(0), pair, {}, ExactBudget(1e9))
    slope, intercept = torch.from_numpy(value.pair.astype(float) / float(value.denominator))
    torch.testing.assert_close(far.slope[0], slope, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(far.intercept[0], intercept, rtol=1e-12, atol=1e-12)
    settled = ~far.asymptotic[0]
    reach = torch.from_numpy(domain.reach)
    torch.testing.assert_close(far.reach[0][settled], reach[settled], rtol=1e-9, atol=1e-9)


class Row(nn.Module):
    """Operations beside one another, those that take the same shape on the same values."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases
        self.shapes = list(dict.fromkeys(shape for shape, _ in cases))
        self.entries = nn.ModuleList(
            nn.Linear(4, torch.Size(shape).numel(), dtype=torch.float64) for shape in self.shapes
        )

    def forward(self, x):
        pairs = zip(self.shapes, self.entries, strict=True)
        values = {shape: entry(x).view(-1, *shape) for shape, entry in pairs}
        alike = defaultdict(list)  # a view of free rows takes as long to trace as an operation
        for shape, function in self.cases:
            made = function(values[shape])
            alike[made.shape[2:]].append(made)
        return torch.cat([torch.cat(each, 1).flatten(1) for each in alike.values()], 1)


# Writing and reading one file takes as long as a dozen operations do.
SAVED = sorted([*CASES.values(), *EXTRA.values()], key=lambda case: case[0])
TOGETHER = 48


@pytest.fixture
def _nothing_twice():
    """Lets PyTorch not remember what an operation did to shapes: here, it meets none again."""
    with torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
        yield


@pytest.mark.whole
@pytest.mark.usefixtures("_nothing_twice")
@pytest.mark.parametrize("start", range(0, len(SAVED), TOGETHER))
def test_a_saved_file_is_the_module_to_the_bit(start, tmp_path):
    module = Row(SAVED[start : start + TOGETHER]).eval()
    rows = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check_saved(module, rows, tmp_path / "model.pt2")


def test_every_operation_in_the_table_has_a_case():
    assert set(RULES) == set(CASES) | WRITTEN | set(GROWN)
    assert {target for target in RULES if RULES[target].kind == "growth"} - WRITTEN == set(GROWN)


def test_rules_page_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "rules.md"
    assert page.read_text(encoding="utf-8") == rules_page(), "run `make docs`"
