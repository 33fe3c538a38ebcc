"""What classifiers and regressors share: data in, a trained stack, instances out."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from torch.func import functional_call

from farfield.errors import InputError
from farfield.estimators.archive import save
from farfield.estimators.method import Architecture, Method
from farfield.estimators.rows import Scaling, TrainingRows
from farfield.estimators.settings import TrainingSettings, draw_seed
from farfield.estimators.trainer import Trainer
from farfield.networks.folding import fold_inputs
from farfield.networks.streams import Purpose, Streams
from farfield.objectives.likelihood import Likelihood

# Numbers per chunk of rows while predicting.
CHUNK = 2_000_000


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(BaseEstimator, TrainingSettings):  # type: ignore[misc]  # scikit-learn ships no types
    """A scikit-learn estimator around a stack of networks."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file; read it with ``farfield.load``.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        save(self, path)

    @abstractmethod
    def _method(self) -> Method:
        """Return how the networks are multiplied."""

    def _validate(self, X: Any, y: Any = None, *, reset: bool, **options: Any) -> Any:
        """Check arrays as scikit-learn does; errors are ``InputError``."""
        options["dtype"] = [np.float64, np.float32]
        options["allow_nd"] = self.module is not None
        try:
            if y is None:
                return validate_data(self, X, reset=reset, **options)
            # Frames lie in memory another way than arrays, and sums depend on their order.
            return validate_data(self, X, y, reset=reset, order="C", **options)
        except ValueError as error:
            raise InputError(str(error)) from error

    def _checked_weights(self, given: Any, X: NDArray[Any]) -> NDArray[Any]:
        """Check the weights of the rows; all one where none are given."""
        try:
            weights: NDArray[Any] = _check_sample_weight(
                given, X, dtype=np.float64, ensure_non_negative=True
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        if not weights.sum() > 0:
            raise InputError("sample_weight has no positive entry")
        return weights

    def _pair(self, validation: Any) -> tuple[Any, Any]:
        """Unpack validation data."""
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise InputError(f"validation must be a pair (X, y), got {type(validation).__name__}")
        return validation[0], validation[1]

    def _scale(self, X: NDArray[Any]) -> Scaling:
        """Measure the features; images are used as they are."""
        if self.standardize and X.ndim == 2:
            return Scaling.of(X)
        return Scaling.none(X.shape[1:])

    def _architecture(self, features: tuple[int, ...], outputs: int) -> Architecture:
        """Return the shape of one network."""
        return Architecture(
            sizes=(int(np.prod(features)), *(int(width) for width in self.hidden), outputs),
            activation=self.activation,
            dropout=self.dropout,
            batch_norm=self.batch_norm,
            factory=self.module,
        )

    def _trainer(
        self, rows: TrainingRows, likelihood: Likelihood, seed: int, *, balance: bool = False
    ) -> Trainer:
        """Build the stack and what trains it."""
        method = self._method()
        architecture = self._architecture(tuple(rows.inputs.shape[1:]), likelihood.outputs)
        stack = method.stack(architecture, len(rows), seed)
        pull = method.pull(stack, len(rows), seed)
        return Trainer(stack, likelihood, self, seed, pull=pull, balance=balance)

    def _split(
        self, rows: TrainingRows, groups: NDArray[Any] | None, seed: int
    ) -> tuple[TrainingRows, TrainingRows]:
        """Hold out a share of the rows, of every group alike."""
        generator = Streams(seed, 1, Purpose.SPLIT).generator(0)
        order = generator.permutation(len(rows))
        if groups is not None:
            # A stable sort by group and an even stride take the same share of each.
            order = order[np.argsort(groups[order], kind="stable")]
        wanted = round(self.validation_fraction * len(rows))
        held = max(1, min(wanted, len(rows) - 1))
        chosen = np.zeros(len(rows), dtype=bool)
        chosen[np.floor((np.arange(held) + 0.5) * len(rows) / held).astype(int)] = True
        train, validation = torch.from_numpy(order[~chosen]), torch.from_numpy(order[chosen])
        return rows[train], rows[validation]

    def _finish(self, trainer: Trainer, scaling: Scaling, rows: TrainingRows, seed: int) -> None:
        """Turn the trained stack into plain modules that take unscaled inputs."""
        factor = torch.from_numpy(1 / scaling.scale)
        shift = torch.from_numpy(-scaling.shift / scaling.scale)
        instances = self._method().instances(trainer.stack, rows.inputs[:2], seed)
        self.instances_ = [
            self._finish_instance(fold_inputs(instance, factor, shift)).requires_grad_(False)
            for instance in instances
        ]
        self.module_ = self.instances_[0]
        self.history_ = trainer.history

    def _finish_instance(self, instance: nn.Module) -> nn.Module:
        """Let subclasses undo what they did to the targets."""
        return instance

    def _outputs(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield outputs of all instances, ``(instances, rows, outputs)`` float64, in pieces."""
        return self._outputs_of(self._inputs(X), self.instances_)

    def _inputs(self, X: Any) -> NDArray[Any]:
        """Check the inputs of a prediction."""
        check_is_fitted(self)
        values: NDArray[Any] = self._validate(X, reset=False)
        return values

    def _outputs_of(
        self, values: NDArray[Any], instances: Sequence[nn.Module]
    ) -> Iterator[NDArray[Any]]:
        """Run instances on checked inputs, a bounded piece at a time."""
        states = [self._evaluation_state(instance) for instance in instances]
        like = next(iter(states[0].values()), torch.zeros(()))
        count = max(1, CHUNK // self._row_size(values))
        for start in range(0, len(values), count):
            part = np.require(values[start : start + count], requirements=["C", "W"])
            inputs = torch.from_numpy(part).to(like.device, like.dtype)
            with torch.no_grad():
                outputs = [
                    functional_call(instance, state, (inputs,))
                    for instance, state in zip(instances, states, strict=True)
                ]
            yield torch.stack(outputs).double().cpu().numpy()

    def _evaluation_state(self, instance: nn.Module) -> dict[str, Tensor]:
        """Return what an instance is evaluated with: float64, so that the order of rows is void.

        A user's module keeps its own precision: it may be large, and cast inside.
        """
        state = {**dict(instance.named_parameters()), **dict(instance.named_buffers())}
        if self.module is not None:
            return state
        return {k: v.double() if v.is_floating_point() else v for k, v in state.items()}

    def _row_size(self, values: NDArray[Any]) -> int:
        """Estimate how many numbers one row takes while predicting."""
        inputs = int(np.prod(values.shape[1:]))
        if self.module is not None:
            # Channels of a convolution: a guess that keeps chunks small.
            return 16 * inputs
        return max([inputs, *self.hidden])

    def _seed(self) -> int:
        """Draw the seed of this fit."""
        return draw_seed(self.random_state)
