"""The gradient of a stacked perceptron by hand, into buffers that are allocated once.

For networks of a few dozen units the bookkeeping of automatic differentiation costs more than
the arithmetic. The chain rule for ``z_i = W_i [a_{i-1}; 1]``, ``a_i = activation(z_i) * mask_i``::

    dL/dW_i     = dL/dz_i [a_{i-1}; 1]^T
    dL/dz_{i-1} = activation'(z_{i-1}) * mask_{i-1} * (W_i^T dL/dz_i)

The tests compare it with autograd.
"""

import torch
from torch import Tensor

from farfield.networks.mlp import LEAKY_SLOPE, StackedMLP


class Backprop:
    """Forward and backward pass of a ``StackedMLP`` for one number of rows.

    Args:
        stack: The network; batch normalisation is left to autograd.
        rows: Rows per member and step.
    """

    def __init__(self, stack: StackedMLP, rows: int) -> None:
        assert not stack.batch_norm
        members, sizes = stack.members, stack.sizes
        hidden = sizes[1:-1]
        self._stack = stack
        self._rows = rows
        self._weights = stack.parameters.views
        self._gradients = stack.parameters.gradients
        # The last row stays one: it carries the bias.
        self._homogeneous = [torch.ones(members, width + 1, rows) for width in sizes[:-1]]
        self._hidden = [values[:, :-1] for values in self._homogeneous[1:]]
        self._transposed = [values.transpose(1, 2) for values in self._homogeneous]
        # What is needed for one layer only takes turns in two places, which stay in the cache.
        work = [torch.zeros(members * max(hidden, default=0) * rows) for _ in range(2)]

        def place(index: int, width: int) -> Tensor:
            return work[index % 2][: members * width * rows].view(members, width, rows)

        self._before = [place(0, width) for width in hidden]
        self._outputs = torch.zeros(members, sizes[-1], rows)
        self._errors = [place(index, width) for index, width in enumerate(hidden)]
        self._errors.append(torch.zeros_like(self._outputs))
        self._backward = [weight[..., :-1].transpose(1, 2) for weight in self._weights]
        self._masks: list[Tensor] = []

    @property
    def error(self) -> Tensor:
        """Where the caller writes dL/d(outputs), ``(members, outputs, rows)``."""
        return self._errors[-1]

    def forward(self, inputs: Tensor) -> Tensor:
        """Map ``(members, rows, inputs + 1)``, the last column ones, to outputs, rows last."""
        self._homogeneous[0] = inputs.transpose(1, 2)
        self._transposed[0] = inputs
        stack = self._stack
        self._masks = stack.masks(self._rows) if stack.dropout > 0 else []
        for index, (before, hidden) in enumerate(zip(self._before, self._hidden, strict=True)):
            torch.bmm(self._weights[index], self._homogeneous[index], out=before)
            if stack.activation == "relu":
                torch.clamp_min(before, 0, out=hidden)
            else:
                torch._C._nn.leaky_relu(before, LEAKY_SLOPE, out=hidden)
            if self._masks:
                hidden.mul_(self._masks[index])
        return torch.bmm(self._weights[-1], self._homogeneous[-1], out=self._outputs)

    def backward(self) -> None:
        """Write the gradient of the loss whose output errors are in ``error``."""
        errors, hidden = self._errors, self._hidden
        slope = 0.0 if self._stack.activation == "relu" else LEAKY_SLOPE
        for index in range(len(hidden), 0, -1):
            error = errors[index - 1]
            torch.bmm(errors[index], self._transposed[index], out=self._gradients[index])
            torch.bmm(self._backward[index], errors[index], out=error)
            if self._masks:
                error.mul_(self._masks[index - 1])
            _activation_backward(error, hidden[index - 1], slope)
        torch.bmm(errors[0], self._transposed[0], out=self._gradients[0])


def _activation_backward(error: Tensor, hidden: Tensor, slope: float) -> None:
    """Multiply the error by the activation's derivative, in place.

    An activation has the sign of what it was applied to; where a mask made it zero, so is the
    error.
    """
    if slope == 0:
        torch.ops.aten.threshold_backward.grad_input(error, hidden, 0, grad_input=error)
    else:
        torch.ops.aten.leaky_relu_backward.grad_input(error, hidden, slope, True, grad_input=error)
