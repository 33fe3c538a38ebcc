"""What a captured network must be: one row of logits per input, rows apart, the model's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.export import evaluation_mode, module_device, module_dtype
from farfield.graph.heads import SHAPES, WHAT_TO_DO
from farfield.graph.network import Network
from farfield.graph.program import Program, Ref, forward

aten = torch.ops.aten
# Random rows of these sizes tell a logit, which grows somewhere, from a probability.
SIZES = (1.0, 1.0, 1.0, 10.0, 10.0, 100.0, 100.0, 1e4, 1e4, 1e6)
TOLERANCE = 1e-5
# By how many units in the last place of half precision layers may round outputs.
HALF = 32
CLAMPS = (aten.clamp.default, aten.hardtanh.default)
CUTS = (*CLAMPS, aten.clamp_min.default, aten.clamp_max.default, aten.hardsigmoid.default)


def check_output(program: Program) -> bool:
    """Check that the output is one row of logits; say whether it is a single logit."""
    shape = program.output_shape
    if len(shape) > 1:
        raise CaptureError(
            f"the model returns an array of shape {('rows', *shape)}; farfield needs one row of "
            "logits per input: (rows, classes)"
        )
    return shape in ((), (1,))


def check_rows_apart(
    program: Program, constants: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device
) -> None:
    """Mark one row with NaN and see that no other row notices."""
    size = 3 * math.prod(program.input_shape)
    # Zeros would be no numbers behind a norm without an epsilon.
    rows = torch.sin(torch.arange(1, size + 1, dtype=dtype, device=device))
    rows = rows.reshape(3, *program.input_shape)
    marked = rows.clone()
    marked[0] = float("nan")
    try:
        with torch.no_grad():
            values, plain = (forward(program, each, constants) for each in (marked, rows))
    except RuntimeError as error:
        raise CaptureError(
            f"the model cannot be evaluated on 3 rows: {str(error).splitlines()[0]}. It was "
            "probably exported with a fixed batch size; export it with "
            "dynamic_shapes=({0: torch.export.Dim.AUTO},)"
        ) from error
    # What is no number by itself, as of an unknown category, says nothing about other rows.
    if len(values) != 3 or bool((torch.isnan(values[1:]) & ~torch.isnan(plain[1:])).any()):
        raise CaptureError(
            "rows of a batch influence one another in this model (a NaN in one row reaches "
            "others), so a single ray cannot be followed; normalise with running statistics"
        )


def check_logits(network: Network) -> None:
    """Refuse outputs that are probabilities although nothing was taken off.

    Logits are unbounded somewhere, or do not add up to one: so rows are tried near the origin and
    up to a million from it.

    Raises:
        NotFollowed: If every output lies between 0 and 1, and those of a row add up to one.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn((len(SIZES), *network.input_shape), generator=generator, dtype=torch.float64)
    rows = rows * torch.tensor(SIZES, dtype=torch.float64).reshape(-1, *[1] * (rows.ndim - 1))
    logits = network.logits(rows)[0]
    values = logits[:, 1:] if network.one_logit else logits
    if not bool(((values >= -TOLERANCE) & (values <= 1 + TOLERANCE)).all()):
        return
    if network.one_logit:
        # A single logit may be small on every row tried; a probability goes to 0 and to 1.
        seen = f"its output lies between {float(values.min()):.3g} and {float(values.max()):.3g}"
        ends = float(values.min()) <= 0.01 and float(values.max()) >= 0.99
        if not ends and not _is_cut_off(network.groups[0].program):
            return
    else:
        # Outputs that never change are no distribution of the input, unless something cuts it off.
        cut = any(step.target in CUTS for step in network.groups[0].program.steps)
        same = not cut and float((values - values[0]).abs().max()) <= TOLERANCE
        if same or float((values.sum(dim=1) - 1).abs().max()) > TOLERANCE:
            return
        seen = "its outputs lie between 0 and 1 and add up to 1"
    raise NotFollowed(
        f"the model returns probabilities: {seen} on {len(rows)} random rows, near the origin and "
        "far from it.",
        WHAT_TO_DO,
    )


def _is_cut_off(program: Program) -> bool:
    """Whether the last step that computes anything cuts off at 0 and 1."""
    made = {step.name: step for step in program.steps}
    last = made.get(program.output)
    while last is not None and last.target in SHAPES and isinstance(last.args[0], Ref):
        last = made.get(last.args[0].name)
    if last is None:
        return False
    return last.target is aten.hardsigmoid.default or (
        last.target in CLAMPS and tuple(last.args[1:3]) == (0, 1)
    )


def agrees(network: Network, module: nn.Module, rows: Tensor, *, one_by_one: bool = False) -> bool:
    """Whether the captured network gives the module's own numbers.

    On the example, and on as many random rows: an example of zeros would hide a difference. All of
    them in one batch, unless the module is to be asked one by one.
    """
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(rows.shape, generator=generator).to(rows)
    for place, column in enumerate(network.columns or ()):
        if column.categories is not None:
            noise[:, place] = rows.flip(0)[:, place]
    own = torch.cat([rows, noise]).to(module_device(module), module_dtype(module, rows.dtype))
    with torch.no_grad(), evaluation_mode(module):
        batches = own.split(1) if one_by_one else [own]
        answers = [module(batch) for batch in batches]
    if any(answer.numel() % len(batch) for answer, batch in zip(answers, batches, strict=True)):
        return False
    answers = [a.reshape(len(batch), -1) for a, batch in zip(answers, batches, strict=True)]
    expected = torch.cat(answers).to(network.dtype)
    if not bool(torch.isfinite(expected[: len(rows)]).all()):
        raise CaptureError(
            f"{type(module).__name__} returns NaN or infinite numbers on the example; pass rows "
            "like those it was trained on"
        )
    got = _returned(network, own.to(network.dtype))
    if network.one_logit and expected.shape[1] == 1:
        got = got[:, 1:]
    if got.shape != expected.shape:
        return False
    finite = torch.isfinite(expected)
    scale = 1.0 + float(expected[finite].abs().max())
    share = max(1e-3, HALF * torch.finfo(answers[0].dtype).eps)
    return bool(((got - expected)[finite].abs() <= share * scale).all())


def _returned(network: Network, rows: Tensor) -> Tensor:
    """What the model itself returns: logits, or the mean of its members' probabilities."""
    logits = network.logits(rows)
    if network.head == "none":
        return logits[0]
    shares = torch.log_softmax(logits, dim=-1).logsumexp(dim=0) - math.log(network.instances)
    return shares if network.head == "log-softmax" else shares.exp()
