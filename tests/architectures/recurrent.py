"""Recurrent networks, unrolled over a short series."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.registry import architecture

SERIES = (3, 3)


class _Last(nn.Module):
    """What a recurrent layer says at the end of a series."""

    def __init__(self, layer, width):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 3)

    def forward(self, x):
        if not self.layer.batch_first:
            return self.head(self.layer(x.transpose(0, 1))[0][-1])
        return self.head(self.layer(x)[0][:, -1])


LAYERS = {
    "lstm": lambda: _Last(nn.LSTM(3, 4, batch_first=True), 4),
    "lstm_sequence_first": lambda: _Last(nn.LSTM(3, 4), 4),
    "lstm_stacked": lambda: _Last(nn.LSTM(3, 4, 2, batch_first=True, dropout=0.1), 4),
    "lstm_bidirectional": lambda: _Last(nn.LSTM(3, 4, batch_first=True, bidirectional=True), 8),
    "gru": lambda: _Last(nn.GRU(3, 4, batch_first=True), 4),
    "rnn_tanh": lambda: _Last(nn.RNN(3, 4, batch_first=True), 4),
    "rnn_relu": lambda: _Last(nn.RNN(3, 4, nonlinearity="relu", batch_first=True), 4),
}
for _name, _build in LAYERS.items():
    architecture(*SERIES, name=_name)(_build)


@architecture(*SERIES)
class LstmCells(nn.Module):
    """A loop over PyTorch's cell."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(3, 4), nn.Linear(4, 3)

    def forward(self, x):
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


@architecture(*SERIES)
class GruCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 4), nn.Linear(4, 3)

    def forward(self, x):
        hidden = torch.zeros(x.shape[0], 4, dtype=x.dtype, device=x.device)
        for step in range(x.shape[1]):
            hidden = self.cell(x[:, step], hidden)
        return self.head(hidden)


@architecture(*SERIES)
class QuasiRecurrent(nn.Module):
    """Bradbury et al. 2017: convolutions, then gates without matrices."""

    def __init__(self):
        super().__init__()
        self.gates, self.head = nn.Conv1d(3, 12, 2, padding=1), nn.Linear(4, 3)

    def forward(self, x):
        z, f, o = self.gates(x.transpose(1, 2))[..., :-1].chunk(3, dim=1)
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        c = torch.zeros_like(z[..., 0])
        for step in range(z.shape[-1]):
            c = f[..., step] * c + (1 - f[..., step]) * z[..., step]
        return self.head(o[..., -1] * c)


@architecture(*SERIES)
class Independent(nn.Module):
    """Li et al. 2018: IndRNN, piecewise linear."""

    def __init__(self):
        super().__init__()
        self.inputs, self.head = nn.Linear(3, 5), nn.Linear(5, 3)
        self.own = nn.Parameter(torch.rand(5))

    def forward(self, x):
        h = torch.zeros(len(x), 5, dtype=x.dtype)
        for step in x.unbind(1):
            h = F.relu(self.inputs(step) + self.own * h)
        return self.head(h)


@architecture(*SERIES)
class LinearStateSpace(nn.Module):
    """Gu et al. 2022: a diagonal linear system, then a gate."""

    def __init__(self):
        super().__init__()
        self.rate, self.b = nn.Parameter(torch.rand(6)), nn.Linear(3, 6)
        self.c, self.head = nn.Linear(6, 8), nn.Linear(4, 3)

    def forward(self, x):
        decay = torch.exp(-self.rate.abs())
        powers = decay ** torch.arange(x.shape[1] - 1, -1, -1, dtype=x.dtype)[:, None]
        state = (self.b(x) * powers).sum(1)
        return self.head(F.glu(self.c(F.gelu(state))))


@architecture(*SERIES)
class Selective(nn.Module):
    """Gu & Dao 2023: the step of the system depends on the input; Mamba's core."""

    def __init__(self):
        super().__init__()
        self.step, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 2)
        self.rate, self.head = nn.Parameter(torch.rand(3, 2)), nn.Linear(3, 3)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 3, 2)
        for u in x.unbind(1):
            delta = F.softplus(self.step(u)).unsqueeze(-1)
            h = torch.exp(-delta * self.rate.exp()) * h
            h = h + delta * self.b(u).unsqueeze(1) * u.unsqueeze(-1)
            y = (h * self.c(u).unsqueeze(1)).sum(-1)
        return self.head(y)


@architecture(*SERIES)
class LstmAttention(nn.Module):
    """Outputs of an LSTM pooled by attention."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)
        self.score = nn.Linear(4, 1)

    def forward(self, x):
        h, _ = self.lstm(x)
        return self.head((self.score(h).softmax(1) * h).sum(1))


@architecture(3, 1, 4, 4)
class ConvLstm(nn.Module):
    """Shi et al. 2015."""

    def __init__(self):
        super().__init__()
        self.gates, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(2, 3)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 2, 4, 4)
        for frame in x.unbind(1):
            i, f, o, g = self.gates(torch.cat([frame, h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h.mean((2, 3)))


@architecture(4, 3, 4, 4)
class TimeDistributed(nn.Module):
    """A convolutional network on each frame; frames are folded into the batch."""

    def __init__(self):
        super().__init__()
        self.frame = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        rows, frames = x.shape[:2]
        h = self.frame(x.flatten(0, 1)).view(rows, frames, -1)
        return self.head(h.mean(1))
