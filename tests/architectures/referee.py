"""The model itself, evaluated far away in double precision, is the referee of its limit.

A logit ends as ``c_m t^m + ... + c_1 t + c_0 + O(1 / t)``, so what is left of the model's own
number falls like ``1 / t``, until rounding, which is a share of the largest number on the way,
takes over.
"""

import math

import torch

FIRST, *LATER = (1e6, 1e9, 1e12)
# How much of a number may be lost to rounding on the way through a small network.
ROUNDING = 1e-13
# Values on the way grow like t, and norms and means bring them back to where logits are.
HIDDEN = 1e-2
# What is left at the first time falls like 1 / t; its second order is smaller than that again.
SLACK = 3.0


def approached(network, module, far, origins, directions, rate=1.0):
    """Assert that probabilities and logits approach their limits like ``t ** -rate``."""
    start = _off(network, module, far, origins, directions, FIRST)
    for t in LATER:
        for what, before, (left, rounding) in zip(
            ("probabilities", "logits"),
            start,
            _off(network, module, far, origins, directions, t),
            strict=True,
        ):
            allowed = SLACK * (FIRST / t) ** rate * before[0].amax(dim=1, keepdim=True) + rounding
            worst = (left - allowed).amax(dim=1)
            assert bool((worst <= 0).all()), (
                f"{what} at t = {t:g} are {left.amax(dim=1).tolist()} off, "
                f"{before[0].amax(dim=1).tolist()} at t = {FIRST:g}"
            )


def _off(network, module, far, origins, directions, t):
    """How far off probabilities and logits are, each with the rounding that is to be expected."""
    with torch.no_grad():
        outputs = module(origins + t * directions)
    left = (shares(network, outputs) - far.probabilities.mean(dim=0)).abs()
    if 0.0 in far.powers:
        # Logits that grow by a logarithm: shares fall by small powers, logits show it sooner.
        left = torch.zeros_like(left)
    return (left, ROUNDING * HIDDEN * t), _logits_off(network, far, outputs, t)


def shares(network, outputs):
    """What the model's outputs are as probabilities."""
    if network.head == "none":
        return network.as_classes(outputs[None])[0].softmax(dim=1)
    outputs = outputs.exp() if network.head == "log-softmax" else outputs
    return outputs if outputs.shape[1] > 1 else torch.cat([1 - outputs, outputs], dim=1)


def _logits_off(network, far, outputs, t):
    """Logits beside their polynomials, where the model returns those of one instance."""
    if network.head != "none" or network.instances > 1 or far.shares is not None:
        return torch.zeros_like(outputs), 0.0
    logits = network.as_classes(outputs[None])[0]
    orders = [far.intercept[0], far.slope[0] * t]
    if far.growth is not None:
        scales = [t**power if power else math.log(t) for power in far.powers]
        orders += [part[0] * scale for part, scale in zip(far.growth, scales, strict=True)]
    size = max(float(part.abs().max()) for part in orders)
    return (logits - sum(orders)).abs(), ROUNDING * (size + HIDDEN * t)
