"""What every operation that changes growth is tried on; whoever adds such a rule adds a line."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from farfield.graph import norms, positions, products

aten = torch.ops.aten
GENERATOR = torch.Generator().manual_seed(5)
W = torch.randn(4, 6, generator=GENERATOR, dtype=torch.float64)
V = torch.randn(2, 3, 3, generator=GENERATOR, dtype=torch.float64)


def positive(x):
    """A value that keeps away from zero and grows with an even power."""
    return x * x + 1.0


# operation -> (shape of one row of its input, what forward does with it)
GROWN = {
    products.multiply: ((6,), lambda x: x * x.flip(1) + (x * torch.sigmoid(x)).relu()),
    products.divide: ((6,), lambda x: x.flip(1) / positive(x) + 2.0 / positive(x)),
    products.multiply_matrices: ((2, 3), lambda x: x @ x.transpose(1, 2)),
    products.add_product: (
        (2, 3),
        lambda x: torch.baddbmm(x @ W[:3, :2], x, x.transpose(1, 2), beta=0.5, alpha=2.0),
    ),
    products.contract: (
        (2, 3),
        lambda x: (
            torch.einsum("bij,bkj->bik", x, x.relu()) + torch.einsum("jl,bij,bkl->bik", V[0], x, x)
        ),
    ),
    aten.pow.Tensor_Scalar: (
        (4,),
        lambda x: x**3 - positive(x) ** -1.5 + (x.abs() ** 3 + 1.0) ** (1 / 3),
    ),
    positions.places_in_order: (
        (5,),
        lambda x: (
            x.gather(1, (x.flip(1) * x.flip(1).abs()).topk(2, 1).indices)
            + x.sort(1).indices[:, 1:3]
        ),
    ),
    aten.square.default: ((4,), lambda x: aten.square(x)),
    aten.sqrt.default: ((4,), lambda x: positive(x).sqrt()),
    aten.rsqrt.default: ((4,), lambda x: x.flip(1) * positive(x).rsqrt()),
    aten.reciprocal.default: ((4,), lambda x: positive(x).reciprocal()),
    aten.exp.default: ((4,), lambda x: (-positive(x)).exp() + F.layer_norm(x, (4,)).exp()),
    aten.expm1.default: ((4,), lambda x: F.layer_norm(x, (4,)).expm1()),
    aten.log.default: ((4,), lambda x: positive(F.layer_norm(x, (4,))).log()),
    aten.log1p.default: ((4,), lambda x: F.layer_norm(x, (4,)).square().log1p()),
    aten.linalg_vector_norm.default: ((4,), lambda x: torch.linalg.vector_norm(x, dim=1)[:, None]),
    aten.glu.default: ((6,), lambda x: F.glu(x, 1)),
    aten.logsumexp.default: ((2, 3), lambda x: x.logsumexp(2)),
    aten.logaddexp.default: ((4,), lambda x: torch.logaddexp(x, x.flip(1))),
    aten.log_softmax.int: ((4,), lambda x: x * torch.log_softmax(x, 1)),
    aten._log_softmax.default: ((4,), lambda x: x.relu() + aten._log_softmax(x, 1, False)),
    aten._cdist_forward.default: ((6,), lambda x: torch.cdist(x, W)),
    aten.prod.dim_int: ((2, 3), lambda x: x.prod(2)),
    aten.cumprod.default: ((4,), lambda x: x.cumprod(1)),
    aten.var.correction: ((2, 3), lambda x: x.var(2)),
    aten.var_mean.correction: ((4,), lambda x: torch.cat(torch.var_mean(x, 1, keepdim=True), 1)),
    aten.hypot.default: ((4,), lambda x: torch.hypot(x, x.flip(1) + 1)),
    aten._trilinear.default: ((3,), lambda x: F.bilinear(x, x.relu(), V)),
    aten.pow.Scalar: ((4,), lambda x: 3.0 ** -positive(x) + 2.0 ** F.layer_norm(x, (4,))),
    aten.exp2.default: ((4,), lambda x: torch.exp2(F.layer_norm(x, (4,)))),
    aten.sin.default: ((4,), lambda x: torch.sin(F.layer_norm(x, (4,)))),
    aten.cos.default: ((4,), lambda x: torch.cos(F.layer_norm(x, (4,)))),
    aten.asinh.default: ((4,), lambda x: torch.asinh(F.layer_norm(x, (4,)))),
    aten.layer_norm.default: ((6,), lambda x: F.layer_norm(x, (6,), W[0], W[1])),
    aten.native_layer_norm.default: (
        (6,),
        lambda x: aten.native_layer_norm(x, [6], W[0], W[1], 1e-5)[0],
    ),
    aten.rms_norm.default: ((6,), lambda x: F.rms_norm(x, (6,), W[0])),
    aten.group_norm.default: ((4, 3), lambda x: F.group_norm(x, 2, W[0, :4], W[1, :4])),
    aten.instance_norm.default: ((2, 4), lambda x: F.instance_norm(x)),
    aten.softmax.int: ((4,), lambda x: x * torch.softmax(x, 1)),
    aten._softmax.default: ((4,), lambda x: x.relu() + aten._softmax(x, 1, False)),
    norms.attend: (
        (3, 4),
        lambda x: F.scaled_dot_product_attention(F.layer_norm(x, (4,)), x, x.flip(2)),
    ),
}
