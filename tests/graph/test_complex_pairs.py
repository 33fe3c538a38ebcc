"""Complex numbers on the way are read as pairs; the model itself is the referee."""

import pytest
import torch
from torch import fft, nn

import farfield as ff
from farfield.graph.complex_pairs import fourier_matrix, signal_matrix

WEIGHT = torch.randn(4, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Inside(nn.Module):
    """A layer, a function, and another layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.first = nn.Linear(6, 6)
        self.last = nn.Linear(function(torch.zeros(1, 6)).shape[1], 3)

    def forward(self, x):
        return self.last(self.function(self.first(x)))


def scaled(x):
    return fft.irfft(fft.rfft(x) * torch.view_as_complex(WEIGHT.to(x)), n=6)


FUNCTIONS = {
    "real": (lambda x: fft.fft(x).real, 1),
    "imaginary": (lambda x: fft.fft(x, norm="ortho").imag, 1),
    "two dimensions": (lambda x: fft.fft2(x.view(-1, 2, 3)).real.flatten(1), 1),
    "inverse": (lambda x: fft.ifft(x).real, 1),
    "half": (lambda x: torch.view_as_real(fft.rfft(x)).flatten(1), 1),
    "and back": (lambda x: fft.irfft(fft.rfft(x) * 2.0, n=5), 1),
    "scaled": (scaled, 1),
    "added": (lambda x: (fft.fft(x) + fft.ifft(x) - x).real, 1),
    "size": (lambda x: fft.rfft(x).abs(), 1),
    "gated": (lambda x: fft.irfft(fft.rfft(x) * torch.sigmoid(x[:, :4]), n=6), 1),
    "convolved": (lambda x: fft.irfft(fft.rfft(x) * fft.rfft(x.relu()), n=6), 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_model_comes_to_its_limit(name):
    function, order = FUNCTIONS[name]
    torch.manual_seed(3)
    module = Inside(function).double()
    origins, directions = torch.randn(2, 4, 6, dtype=torch.float64)
    far = ff.at_infinity(ff.capture(module, origins[:1]), origins, directions)
    assert int(far.order.max()) == order
    t = 1e6
    with torch.no_grad():
        said = module(origins + t * directions)
    leading = far.growth[0][0] if order == 2 else far.slope[0]
    torch.testing.assert_close(said / t**order, leading, atol=1e-5, rtol=1e-4)


def test_what_else_is_done_to_complex_numbers_is_refused_by_name():
    module = Inside(lambda x: fft.rfft(x).angle())
    with pytest.raises(ff.errors.UnsupportedOperation, match=r"aten\.angle .*not supported yet"):
        ff.capture(module, torch.zeros(1, 6))


def test_rows_that_are_transformed_together_are_refused():
    module = Inside(lambda x: fft.fft(x, dim=0).real)
    with pytest.raises(ff.errors.CaptureError, match=r"aten\._fft_r2c"):
        ff.capture(module, torch.randn(3, 6))


@pytest.mark.parametrize("length", [1, 4, 5])
def test_matrices_are_what_the_transforms_do(length):
    row = torch.randn(length, 2, dtype=torch.float64)
    made = torch.view_as_real(fft.fft(torch.view_as_complex(row)))
    torch.testing.assert_close(row.flatten() @ fourier_matrix(length, 0, True), made.flatten())
    half = torch.view_as_real(fft.rfft(row[:, 0]))
    back = half.flatten() @ signal_matrix(len(half), 2, length)
    torch.testing.assert_close(back, row[:, 0])
