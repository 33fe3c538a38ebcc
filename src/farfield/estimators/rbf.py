"""A radial basis function classifier with a certificate."""

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.ensemble import Plain
from farfield.estimators.method import Architecture, Method
from farfield.estimators.rows import Scaling, TrainingRows
from farfield.estimators.settings import number_problems
from farfield.estimators.trainer import Trainer
from farfield.networks.rbf import RBFNetwork
from farfield.networks.streams import Purpose, Streams
from farfield.objectives.likelihood import Categorical, Likelihood


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class RBFClassifier(NeuralClassifier):
    """A radial basis function network: it says ``1 / K`` for every class far away, provably.

    Logits are ``f_k(x) = sum_l alpha_kl exp(-gamma |(x - c_l) / scale|^2)`` with fixed centres;
    the ``alpha`` are trained with cross-entropy. Always one logit per class, the form of
    Hein et al. 2019, Theorem 3.2. The parameters of perceptrons (``hidden``, ``activation``,
    ``dropout``, ``batch_norm``, ``module``, ``logits``) are not used.

    Attributes:
        centres: ``"data"`` for the training rows, or how many centres k-means finds.
        gamma: Sharpness, in units of the scaled features; ``"auto"`` is ``1 / (2 s^2)`` with
            ``s`` the median distance of a centre to its nearest neighbour.

    Further parameters: see ``TrainingSettings`` and ``NeuralClassifier``.

    Example:
        >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> model = RBFClassifier(centres="data", random_state=0).fit(X, [0, 0, 1, 1])
        >>> radius = model.certificate_radius(0.01)
        >>> bool(np.abs(model.predict_proba([[2.0 + radius]]) - 0.5).max() <= 0.01)
        True
    """

    centres: int | Literal["data"] = 50
    gamma: float | Literal["auto"] = "auto"
    learning_rate: float = 0.05

    def certificate_radius(self, eps: float) -> float:
        """Return a distance to all ``centres_`` beyond which every class is within eps of 1/K.

        Args:
            eps: How far a probability may be from ``1 / K``.
        """
        check_is_fitted(self)
        assert isinstance(self.module_, RBFNetwork)
        return self.module_.certificate_radius(eps)

    @property
    def centres_(self) -> NDArray[Any]:
        """The centres in the units of the inputs, ``(centres, features)``."""
        check_is_fitted(self)
        assert isinstance(self.module_, RBFNetwork)
        return self.module_.centres.numpy()

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        problems = super()._problems()
        if self.centres != "data" and not (isinstance(self.centres, int) and self.centres > 0):
            problems.append(f"centres must be 'data' or a positive integer, got {self.centres!r}")
        if self.gamma != "auto":
            problems.extend(number_problems(self, "gamma"))
        if self.module is not None:
            problems.append("module must be None: the network is the method here")
        return problems

    def _method(self) -> Method:
        """Train one network."""
        return Plain(1)

    def _likelihood(self) -> Likelihood:
        """Use one logit per class, as the theorem does."""
        return Categorical(len(self.classes_))

    def _trainer(
        self, rows: TrainingRows, likelihood: Likelihood, seed: int, *, balance: bool = False
    ) -> Trainer:
        """Choose centres and sharpness, then train the weights."""
        centres = self._choose_centres(rows.inputs, seed)
        gamma = _sharpness(centres) if self.gamma == "auto" else float(self.gamma)

        def build() -> nn.Module:
            weight = torch.zeros(likelihood.outputs, len(centres))
            return RBFNetwork(centres, torch.ones(centres.shape[1]), gamma, weight)

        architecture = Architecture((), self.activation, 0.0, False, build)
        stack = self._method().stack(architecture, len(rows), seed)
        return Trainer(stack, likelihood, self, seed, balance=balance)

    def _choose_centres(self, inputs: Tensor, seed: int) -> Tensor:
        """Take all distinct rows, or the centres of k-means."""
        distinct: Tensor = torch.unique(inputs, dim=0)
        if self.centres == "data" or self.centres >= len(distinct):
            return distinct
        number = int(Streams(seed, 1, Purpose.PRIOR).generator(0).integers(2**31))
        means = KMeans(self.centres, n_init=1, random_state=number).fit(inputs.numpy())
        return torch.from_numpy(means.cluster_centers_.astype(np.float32))

    def _finish(self, trainer: Trainer, scaling: Scaling, rows: TrainingRows, seed: int) -> None:
        """Express the network in the units of the inputs."""
        trained = trainer.stack.module(0)
        assert isinstance(trained, RBFNetwork)
        centres = trained.centres.double().numpy() * scaling.scale + scaling.shift
        self.module_ = (
            RBFNetwork(
                torch.from_numpy(centres).float(),
                torch.from_numpy(scaling.scale).float(),
                float(trained.gamma),
                trained.weight.detach(),
            )
            .eval()
            .requires_grad_(False)
        )
        self.instances_: list[nn.Module] = [self.module_]
        self.history_ = trainer.history

    def _row_size(self, values: NDArray[Any]) -> int:
        """Count the differences to all centres."""
        assert isinstance(self.module_, RBFNetwork)
        return self.module_.centres.numel()


def _sharpness(centres: Tensor) -> float:
    """``1 / (2 s^2)``, s the median distance to the nearest other centre."""
    if len(centres) < 2:
        return 1.0
    distances, _ = NearestNeighbors(n_neighbors=1).fit(centres.numpy()).kneighbors()
    spacing = float(np.median(distances[:, 0]))
    if spacing == 0:
        raise InputError("centres coincide; give gamma as a number")
    return 1 / (2 * spacing**2)
