"""Move affine maps of inputs and outputs into a network's own layers, so a plain module remains."""

import torch
from torch import Tensor, nn


class AffineMap(nn.Module):
    """``x * factor + shift``, elementwise.

    Example:
        >>> AffineMap(torch.tensor([2.0]), torch.tensor([1.0]))(torch.tensor([[3.0]]))
        tensor([[7.]])
    """

    factor: Tensor
    shift: Tensor

    def __init__(self, factor: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.register_buffer("factor", factor)
        self.register_buffer("shift", shift)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the map."""
        return inputs * self.factor + self.shift


def fold_inputs(module: nn.Module, factor: Tensor, shift: Tensor) -> nn.Module:
    """Return a module equal to ``module(x * factor + shift)``.

    The first layer of a sequence takes the map up where it is affine; other modules get an
    ``AffineMap`` layer in front. Changes ``module``.

    Args:
        module: The network.
        factor: ``(*features)`` float64.
        shift: ``(*features)`` float64.
    """
    if bool((factor == 1).all()) and bool((shift == 0).all()):
        return module
    first = module[0] if isinstance(module, nn.Sequential) and len(module) else module
    if isinstance(first, nn.Linear) and first.bias is not None and factor.dim() == 1:
        weight = first.weight.detach().double()
        with torch.no_grad():
            first.bias.copy_(first.bias.double() + weight @ shift)
            first.weight.copy_(weight * factor)
        return module
    return nn.Sequential(AffineMap(factor.float(), shift.float()), module).eval()


def fold_outputs(module: nn.Module, factor: Tensor, shift: Tensor) -> nn.Module:
    """Return a module equal to ``module(x) * factor + shift``; changes ``module``.

    Args:
        module: The network.
        factor: ``(outputs)`` float64.
        shift: ``(outputs)`` float64.
    """
    if bool((factor == 1).all()) and bool((shift == 0).all()):
        return module
    last = module[-1] if isinstance(module, nn.Sequential) and len(module) else module
    if isinstance(last, nn.Linear) and last.bias is not None:
        with torch.no_grad():
            last.weight.copy_(last.weight.double() * factor[:, None])
            last.bias.copy_(last.bias.double() * factor + shift)
        return module
    return nn.Sequential(module, AffineMap(factor.float(), shift.float())).eval()
