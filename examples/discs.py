"""Five kinds of models on half-moons, each seen out to infinity, the last of them guarded.

Usage: python examples/discs.py [FOLDER] [DIRECTIONS]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from torch import nn

import farfield as ff
from farfield.datasets import half_moons
from farfield.report import Disc, save_discs


class Transformer(nn.Module):
    """One block with pre-norm attention; each of the two features is a token."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, width))
        self.bias = nn.Parameter(torch.randn(2, width))
        self.norm = nn.LayerNorm(width)
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.mixed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        tokens = x[:, :, None] * self.weight + self.bias
        seen = self.norm(tokens)
        scores = self.queries(seen) @ self.keys(seen).transpose(1, 2) / 4
        tokens = tokens + torch.softmax(scores, dim=-1) @ self.values(seen)
        tokens = tokens + self.mixed(tokens)
        return self.head(tokens.mean(dim=1))


def transformer(X: np.ndarray, y: np.ndarray) -> nn.Module:
    """Train it on all rows at once."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Transformer()
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model.eval()


def look(model: object, X: np.ndarray, directions: int) -> Disc:
    """One minus the confidence in all directions, from the middle of the data to infinity."""
    centre, halfway = X.mean(axis=0), 2 * X.std(axis=0).max()
    angles = np.linspace(0, 2 * np.pi, directions, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.concatenate([[0.0], np.geomspace(0.05, 100, 119)])
    points = (centre + distances[:, None, None] * rays).reshape(-1, 2)
    if isinstance(model, ff.GuardedModel):
        p, far = model.probabilities(points), model.at_infinity(centre, rays)
    else:
        network = ff.capture(model, torch.zeros(1, 2))
        p, far = network.probabilities(points).mean(dim=0), ff.at_infinity(network, centre, rays)
    near = 1 - p.amax(dim=-1).numpy().reshape(len(distances), directions)
    return Disc(angles, distances, near, 1 - far.confidence.numpy(), float(halfway))


def main(folder: Path, directions: int = 1440) -> None:
    moons = half_moons()
    X, y = moons.X, moons.y
    network = ff.ReLUClassifier(hidden=(25,) * 3, logits="one", random_state=0).fit(X, y)
    models = {
        "ReLU network": network,
        "Random forest": RandomForestClassifier(100, random_state=0).fit(X, y),
        "Boosted trees": HistGradientBoostingClassifier(random_state=0).fit(X, y),
        "Transformer": transformer(X, y),
        "The first, guarded": ff.guard(network, X, labels=y),
    }
    discs = {title: look(model, X, directions) for title, model in models.items()}
    shares = {title: np.mean(disc.limit <= 0.01) for title, disc in discs.items()}
    notes = {title: f"certain in {share:.0%} of directions" for title, share in shares.items()}
    # Each limit is exact; the share is that of the directions that were followed.
    picture = save_discs(discs, folder / "kinds.png", X - X.mean(axis=0), y, notes=notes, columns=5)
    for title, note in notes.items():
        print(f"{title}: {note}")
    print(f"  {picture}")


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else "farfield-examples"),
        *map(int, sys.argv[2:3]),
    )
