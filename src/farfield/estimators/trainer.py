"""Train all members of a stack at once on the rows of a table.

One graph, one optimiser step for every member; each member has its own starting weights, order of
rows, dropout masks and early stopping. A member that stopped keeps moving with the others until
all have, but its best weights are already kept.
"""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from farfield.errors import InputError, NumericalOverflow
from farfield.estimators.descent import Descent
from farfield.estimators.history import History
from farfield.estimators.optimizers import Pull, make_optimizer
from farfield.estimators.rows import BLOCK, TrainingRows, TrainingTable
from farfield.estimators.settings import TrainingSettings
from farfield.networks.stack import Stack
from farfield.networks.stacked_module import StackedModule
from farfield.networks.streams import Purpose, Streams
from farfield.objectives import Batch, resolve
from farfield.objectives.likelihood import Likelihood
from farfield.threads import threads_for

# Steps between two looks for NaN: rare enough to cost nothing, often enough to stop early.
CHECK_EVERY = 50


class Trainer:
    """Trains a stack on rows of a table; can be called again to go on where it stopped.

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
        self._balance = balance
        self._shuffle = Streams(seed, stack.members, Purpose.SHUFFLE)
        if pull is None and settings.weight_decay > 0:
            pull = Pull(settings.weight_decay)
        optimizer = make_optimizer(settings.optimizer, stack.parameters, settings.momentum)
        self._descent = Descent(stack, resolve(settings.objective), optimizer, pull)
        self._checked = 0

    def run(
        self, rows: TrainingRows, validation: TrainingRows | None = None, epochs: int | None = None
    ) -> None:
        """Train for some epochs; with validation rows, keep each member's best weights."""
        settings = self._settings
        epochs = settings.epochs if epochs is None else epochs
        self._test_outputs(rows)
        watch = None if validation is None else Watch(self.stack, settings.patience)
        table = TrainingTable(
            rows, self._likelihood, self._shuffle, settings.batch_size, balance=self._balance
        )
        with self._threads(table.batch_size):
            for epoch in range(epochs):
                progress = epoch / epochs
                self.stack.begin(progress)
                passed = sum(progress >= share for share in settings.schedule)
                self._descent.epoch(
                    table, settings.learning_rate * settings.schedule_factor**passed
                )
                self.history.epochs += 1
                if self._descent.steps - self._checked >= CHECK_EVERY or epoch == epochs - 1:
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
        self._descent.rest()

    def _threads(self, rows: int) -> AbstractContextManager[None]:
        """Steps of so many rows on the threads that are quickest; modules may do anything."""
        if isinstance(self.stack, StackedModule):
            return nullcontext()
        return threads_for(len(self.stack.parameters.values) * rows)

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

    def _check_finite(self, epoch: int, watch: "Watch | None") -> None:
        """Stop with an explanation when a parameter is no longer a number."""
        self._checked = self._descent.steps
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
            f"finite in epoch {epoch}, at step {self._checked} or in the {CHECK_EVERY} before it; "
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


class Watch:
    """Watches validation losses.

    Args:
        stack: The members being trained.
        patience: Epochs without improvement after which a member stops; ``None`` for never.
    """

    def __init__(self, stack: Stack, patience: int | None) -> None:
        self._tensors = [*stack.parameters.views, *stack.buffers]
        self._kept = [tensor.clone() for tensor in self._tensors]
        self._patience = patience
        self._best = torch.full((stack.members,), torch.inf)
        self.best_epoch = torch.zeros(stack.members, dtype=torch.long)
        self._waited = torch.zeros(stack.members, dtype=torch.long)
        self.active = torch.ones(stack.members, dtype=torch.bool)

    @property
    def stopped(self) -> bool:
        """Whether no member trains any more."""
        return not bool(self.active.any())

    def see(self, losses: Tensor, epoch: int) -> None:
        """Keep the weights of members that improved; stop those that waited long enough."""
        better = self.active & (losses < self._best)
        self._best = torch.where(better, losses, self._best)
        self.best_epoch[better] = epoch
        self._waited = torch.where(better, 0, self._waited + 1)
        if self._patience is not None:
            self.active &= self._waited < self._patience
        for kept, tensor in zip(self._kept, self._tensors, strict=True):
            kept[better] = tensor[better]

    def restore(self) -> None:
        """Put every member's best weights back."""
        for kept, tensor in zip(self._kept, self._tensors, strict=True):
            tensor.copy_(kept)
