"""Turn what users pass as inputs into tensors of rows, or say what is wrong with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError


def as_rows(
    values: Any,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    what: str,
    missing: Tensor | None = None,
) -> Tensor:
    """Check an array of rows of the given shape; one row without its batch dimension will do.

    Args:
        values: What was given.
        shape: Of one row.
        dtype: The type wanted.
        device: The device wanted.
        what: What messages call the rows.
        missing: Which columns may hold NaN; none by default.

    Raises:
        InputError: For another shape, an empty batch, integers, complex numbers, NaN or infinity.
    """
    tensor = _as_tensor(values, what)
    if tensor.shape == shape:
        tensor = tensor[None]
    if tensor.shape[1:] != shape or tensor.ndim == 0:
        expected = ", ".join(["rows", *map(str, shape)])
        raise InputError(f"{what} has shape {tuple(tensor.shape)}; the model takes ({expected})")
    if tensor.shape[0] == 0:
        raise InputError(
            f"{what} is empty: it has shape {tuple(tensor.shape)}; pass at least one row"
        )
    rows = tensor
    if not _is_ready(tensor, dtype, device):
        rows = tensor.detach().to(device, dtype).contiguous()
    # A sum is not finite if any of its numbers is not, and costs a fraction of looking at each.
    if math.isfinite(rows.sum()):
        return rows
    good = torch.isfinite(rows)
    if missing is not None:
        good = good | (torch.isnan(rows) & missing.to(device))
    bad = ~good.reshape(len(rows), -1).all(dim=1)
    if bool(bad.any()):
        places = torch.nonzero(bad).flatten()
        listed = ", ".join(map(str, places[:5].tolist())) + (", ..." if len(places) > 5 else "")
        raise InputError(
            f"{what} holds NaN or infinite numbers in {len(places)} of {len(rows)} rows "
            f"({listed}); drop or impute them first"
        )
    return rows


def _is_ready(tensor: Tensor, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a tensor can be taken as it is."""
    same = tensor.dtype == dtype and tensor.device == device
    return same and not tensor.requires_grad and tensor.is_contiguous()


def _as_tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        tensor = values
    else:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise InputError(f"{what} cannot be read as an array: {error}") from error
        if array.dtype.kind not in "fiubc":
            raise InputError(
                f"{what} has dtype {array.dtype}; encode strings, dates and objects as "
                "floating-point numbers first"
            )
        # Data frames lend arrays that nobody may write to, of which torch would warn.
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if not tensor.is_floating_point():
        raise InputError(
            f"{what} has dtype {tensor.dtype}; farfield works on floating-point numbers. "
            "Convert it, for instance with .astype(float)."
        )
    return tensor
