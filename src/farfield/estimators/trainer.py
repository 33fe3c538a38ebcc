"""Train all members of a stack at once.

One graph, one optimiser step for every member; each member has its own starting weights, order of
rows, dropout masks and early stopping. A member that stopped keeps moving with the others until
all have, but its best weights are already kept.
"""

import sys

import torch
from torch import Tensor

from farfield.errors import InputError, NumericalOverflow
from farfield.estimators.early_stopping import Watch
from farfield.estimators.history import History
from farfield.estimators.optimizers import SGD, Adam, Optimizer, Pull
from farfield.estimators.rows import TrainingRows
from farfield.estimators.settings import TrainingSettings
from farfield.estimators.table import BLOCK, TrainingTable
from farfield.networks.backprop import Backprop
from farfield.networks.mlp import StackedMLP
from farfield.networks.stack import Stack
from farfield.networks.streams import Purpose, Streams
from farfield.objectives import NLL, Batch, resolve
from farfield.objectives.likelihood import Likelihood

# Steps between two looks for NaN: rare enough to cost nothing, often enough to stop early.
CHECK_EVERY = 50


class Trainer:
    """Trains a stack; can be called again to go on where it stopped.

    Args:
        stack: The members.
        likelihood: What their outputs mean.
        settings: Parameters of the training.
        seed: Seed of the whole ensemble.
        pull: A penalty in place of weight decay.
        balance: Weight classes by the inverse of their count in each batch.
    """

    def __init__(
        self,
        stack: Stack,
        likelihood: Likelihood,
        settings: TrainingSettings,
        seed: int,
        *,
        pull: Pull | None = None,
        balance: bool = False,
    ) -> None:
        self.stack = stack
        self.history = History()
        self._likelihood = likelihood
        self._settings = settings
        self._objective = resolve(settings.objective)
        self._balance = balance
        self._shuffle = Streams(seed, stack.members, Purpose.SHUFFLE)
        parameters = stack.parameters
        self._optimizer: Optimizer = (
            Adam(parameters) if settings.optimizer == "adam" else SGD(parameters, settings.momentum)
        )
        if pull is None and settings.weight_decay > 0:
            pull = Pull(settings.weight_decay)
        self._pull = pull
        self._leaves: list[Tensor] = []
        self._by_hand = (
            isinstance(stack, StackedMLP) and not stack.batch_norm and type(self._objective) is NLL
        )
        self._kernels: dict[int, Backprop] = {}
        self._steps = 0
        self._checked = 0

    def run(
        self, rows: TrainingRows, validation: TrainingRows | None = None, epochs: int | None = None
    ) -> None:
        """Train for some epochs; with validation rows, keep each member's best weights."""
        settings = self._settings
        epochs = settings.epochs if epochs is None else epochs
        self._test_outputs(rows)
        self._leaves = [] if self._by_hand else self.stack.parameters.leaves()
        watch = None if validation is None else Watch(self.stack, settings.patience)
        table = TrainingTable(rows, self._shuffle, settings.batch_size)
        for epoch in range(epochs):
            progress = epoch / epochs
            self.stack.begin(progress)
            passed = sum(progress >= share for share in settings.schedule)
            rate = settings.learning_rate * settings.schedule_factor**passed
            self._epoch(table, rate)
            self.history.epochs += 1
            if self._steps - self._checked >= CHECK_EVERY or epoch == epochs - 1:
                self._check_finite(epoch + 1, watch)
            if watch is not None and validation is not None:
                losses = self.losses(validation)
                self.history.validation.append(losses.tolist())
                watch.see(losses, epoch + 1)
            if settings.verbose:
                self._report(epoch + 1, epochs, rows, validation)
            if watch is not None and watch.stopped:
                break
        if watch is not None:
            watch.restore()
            self.history.best_epoch = watch.best_epoch.tolist()
        else:
            self.history.best_epoch = [self.history.epochs] * self.stack.members
        # Work space; a fitted estimator is copied and pickled without it.
        self._kernels, self._leaves = {}, []

    def losses(self, rows: TrainingRows) -> Tensor:
        """Return every member's mean loss over rows, in evaluation mode, ``(members,)``."""
        stack, total = self.stack, torch.zeros(self.stack.members)
        size = max(1, BLOCK // (stack.members * max(1, rows.inputs[0].numel()) * 16))
        with torch.no_grad():
            for index in torch.split(torch.arange(len(rows)), size):
                batch = self._batch(rows[index], stack.members, len(rows))
                outputs = stack.apply(stack.parameters.views, batch.inputs, training=False)
                total += batch.loss(outputs)
        return total

    def _batch(self, part: TrainingRows, members: int, count: int) -> Batch:
        """Show the same rows to every member."""
        weights = torch.ones(len(part)) if part.weights is None else part.weights
        return Batch(
            inputs=part.inputs.expand(members, *part.inputs.shape),
            targets=part.targets.expand(members, *part.targets.shape),
            weights=(weights / count).expand(members, -1),
            low=part.inputs.amin(0),
            high=part.inputs.amax(0),
            likelihood=self._likelihood,
        )

    def _epoch(self, table: TrainingTable, rate: float) -> None:
        """Take one pass over the rows."""
        step = self._step_by_hand if self._by_hand else self._step_by_autograd
        with torch.inference_mode(self._by_hand):
            for part in table.parts():
                step(table, part)
                if self._pull is not None:
                    self._pull.add_gradient(self.stack.parameters)
                self._optimizer.step(rate)
                self._steps += 1

    def _step_by_hand(self, table: TrainingTable, part: Tensor) -> None:
        """Write the gradient of the likelihood with the chain rule spelled out."""
        rows = part.shape[1]
        kernel = self._kernels.get(rows)
        if kernel is None:
            assert isinstance(self.stack, StackedMLP)
            kernel = self._kernels[rows] = Backprop(self.stack, rows)
        outputs = kernel.forward(part[..., : table.ones + 1])
        targets = table.targets(part)
        self._likelihood.gradient(outputs, targets.transpose(1, 2), kernel.error)
        if table.weighted or self._balance:
            kernel.error.mul_(self._weights(table, part).unsqueeze(1))
        else:
            kernel.error.mul_(1 / rows)
        kernel.backward()

    def _step_by_autograd(self, table: TrainingTable, part: Tensor) -> None:
        """Write the gradient of any objective with automatic differentiation."""
        parameters, leaves = self.stack.parameters, self._leaves
        parameters.gradient.zero_()
        batch = Batch(
            inputs=table.inputs(part),
            targets=table.targets(part),
            weights=self._weights(table, part),
            low=table.low,
            high=table.high,
            likelihood=self._likelihood,
            data=table.data,
        )

        def network(inputs: Tensor, *, training: bool = True) -> Tensor:
            return self.stack.apply(leaves, inputs, training=training)

        with torch.enable_grad():
            losses = self._objective(network, batch, self.stack.noise)
            penalty = self.stack.penalty(leaves)
            total = losses.sum() if penalty is None else losses.sum() + penalty.sum()
            torch.autograd.backward(total)

    def _weights(self, table: TrainingTable, part: Tensor) -> Tensor:
        """Return the rows' weights in the loss, ``(members, rows)``."""
        rows = part.shape[1]
        weights = (
            part[..., -1] / rows if table.weighted else part.new_full(part.shape[:2], 1 / rows)
        )
        if self._balance:
            targets = table.targets(part)
            if targets.shape[2] == 1:
                targets = torch.cat([1 - targets, targets], dim=2)
            counts = targets.sum(1, keepdim=True)
            present = (counts > 0).sum(2, keepdim=True)
            weights = weights * (targets * rows / (counts.clamp_min(1) * present)).sum(2)
        return weights

    def _test_outputs(self, rows: TrainingRows) -> None:
        """Refuse a network whose outputs do not fit the likelihood."""
        stack = self.stack
        with torch.no_grad():
            inputs = rows.inputs[:2].expand(stack.members, *rows.inputs[:2].shape)
            shape = tuple(stack.apply(stack.parameters.views, inputs, training=False).shape)
        wanted = (len(rows.inputs[:2]), self._likelihood.outputs)
        if shape[-2:] != wanted:
            raise InputError(
                f"the module must map {wanted[0]} rows to shape {wanted}, got {shape[1:]}; "
                f"its last layer needs {self._likelihood.outputs} outputs here"
            )

    def _check_finite(self, epoch: int, watch: Watch | None) -> None:
        """Stop with an explanation when a parameter is no longer a number."""
        self._checked = self._steps
        if bool(torch.isfinite(self.stack.parameters.values).all()):
            return
        finite = torch.ones(self.stack.members, dtype=torch.bool)
        for view in self.stack.parameters.views:
            finite &= torch.isfinite(view.flatten(1)).all(1)
        bad = ~finite if watch is None else ~finite & watch.active
        if not bool(bad.any()):
            return
        raise NumericalOverflow(
            f"training diverged: the weights of member {int(bad.int().argmax())} are no longer "
            f"finite in epoch {epoch}, at step {self._steps} or in the {CHECK_EVERY} before it; "
            f"lower learning_rate (now {self._settings.learning_rate:g}), set standardize=True, "
            "or look for extreme values in the data"
        )

    def _report(
        self, epoch: int, epochs: int, rows: TrainingRows, validation: TrainingRows | None
    ) -> None:
        """Write one line of progress."""
        text = f"epoch {epoch}/{epochs}: loss {float(self.losses(rows).mean()):.4f}"
        if validation is not None:
            text += f", validation {sum(self.history.validation[-1]) / self.stack.members:.4f}"
        print(text, file=sys.stderr)
