"""Train an image network with any objective; a killed run goes on where it stopped.

After every epoch the weights, the optimiser's memory and the position of every random stream are
written to the checkpoint. A run that starts with a checkpoint does the remaining epochs and ends
with exactly the numbers of a run that was never interrupted.
"""

import copy
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from farfield.archive import Shapes, read_archive, write_archive
from farfield.errors import InputError, NumericalOverflow
from farfield.estimators.descent import Descent
from farfield.estimators.images.settings import ImageSettings
from farfield.estimators.optimizers import Pull, make_optimizer
from farfield.networks.stacked_module import StackedModule
from farfield.networks.streams import Purpose, Streams
from farfield.objectives import Batch, resolve
from farfield.objectives.attacks_values import check_labels
from farfield.objectives.likelihood import Categorical
from farfield.objectives.pixels import augment, check_images, to_unit
from farfield.progress import Show, stages

VERSION = 1
KEY = "farfield-checkpoint"
WHAT = "a checkpoint of a training"
ADVICE = "; give another path, or remove it to start anew"


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: its mean loss (without weight decay), step size and seconds."""

    epoch: int
    loss: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class TrainedImages:
    """A trained network in evaluation mode, and how it got there."""

    module: nn.Module
    history: tuple[EpochRecord, ...]


def train_images(
    module: nn.Module | Callable[[], nn.Module],
    images: NDArray[Any] | Tensor,
    labels: NDArray[Any] | Tensor,
    settings: ImageSettings | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> TrainedImages:
    """Train a network on images.

    Args:
        module: A function that builds the network, called with the seed of ``settings``; or a
            network to start from, which is copied. It gives one logit per class.
        images: ``(points, channels, height, width)``, bytes or numbers in [0, 1].
        labels: ``(points,)`` whole numbers from 0.
        settings: The constants; ``None`` for the paper's.
        checkpoint: A file to write after every epoch. If it is there, the training that wrote it
            goes on; it must have had the same settings and images.
        progress: Show a line of progress; ``None`` for only on a terminal.

    Returns:
        The network, and a record of every epoch, those of earlier runs included.

    Raises:
        InputError: For unusable images, labels or checkpoint.
        NumericalOverflow: If the loss is no longer a number. The checkpoint of the last complete
            epoch stays.

    Example:
        >>> def build() -> nn.Module:
        ...     return nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        >>> images = torch.tensor([[[[0.0, 0.0], [0.0, 0.0]]], [[[1.0, 1.0], [1.0, 1.0]]]])
        >>> settings = ImageSettings(epochs=40, padding=0, learning_rate=0.1)
        >>> trained = train_images(build, images, torch.tensor([0, 1]), settings)
        >>> trained.module(images).argmax(1).tolist()
        [0, 1]
    """
    settings = settings or ImageSettings()
    pixels = check_images(images)
    run = _Run(module, pixels, torch.as_tensor(labels), settings, checkpoint)
    done = run.resume()
    with stages(progress) as show:
        for epoch in range(done, settings.epochs):
            run.epoch(epoch, show)
    trained = run.stack.module(0).requires_grad_(False)
    return TrainedImages(trained, tuple(run.history))


class _Run:
    """A training under way: the network, its optimiser and its random streams."""

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        images: Tensor,
        labels: Tensor,
        settings: ImageSettings,
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        start = (lambda: copy.deepcopy(module)) if isinstance(module, nn.Module) else module
        seed = settings.random_state
        self._streams = {
            purpose.name.lower(): Streams(seed, 1, purpose)
            for purpose in (Purpose.NOISE, Purpose.SHUFFLE, Purpose.AUGMENT)
        }
        self.stack = StackedModule(start, Streams(seed, 1, Purpose.INITIAL), self._streams["noise"])
        self.history: list[EpochRecord] = []
        self._settings = settings
        self._images = images
        self._path = None if checkpoint is None else Path(checkpoint)
        parameters = self.stack.parameters
        self._descent = Descent(
            self.stack,
            resolve(settings.objective),
            make_optimizer(settings.optimizer, parameters, settings.momentum),
            _weight_decay(self.stack, settings.weight_decay),
        )
        with torch.no_grad():
            logits = self.stack.apply(parameters.views, to_unit(images[None, :2]), training=False)
        self._classes = logits.shape[-1]
        self._targets = check_labels(labels, len(images), self._classes)
        self._data = {"shape": list(images.shape), "checksum": _checksum(images, self._targets)}

    def epoch(self, epoch: int, show: Show) -> None:
        """Take one pass over the images and write the checkpoint."""
        settings, start = self._settings, time.perf_counter()
        rate, total, seen = settings.rate(epoch), 0.0, []
        count = settings.epoch_images or len(self._images)

        def after(chosen: Tensor, losses: Tensor) -> None:
            nonlocal total
            loss = float(losses)
            seen.append(len(chosen))
            if not math.isfinite(loss):
                raise NumericalOverflow(self._diverged(loss, epoch, len(seen)))
            total += loss * len(chosen)
            speed = sum(seen) / (time.perf_counter() - start)
            text = f"epoch {epoch + 1}/{settings.epochs}  loss {loss:.4f}  {speed:,.0f} images/s"
            show(text, (epoch + sum(seen) / count) / settings.epochs)

        self._descent.epoch(self, rate, after)
        seconds = round(time.perf_counter() - start, 3)
        self.history.append(EpochRecord(epoch + 1, total / sum(seen), rate, seconds))
        if self._path is not None:
            write_checkpoint(self._path, self._tensors(), self._header(epoch + 1))

    def parts(self) -> Iterator[Tensor]:
        """Yield the places of the images of each batch, in a fresh order."""
        order = self._streams["shuffle"].permutations(len(self._images))[0]
        parts = list(torch.split(order[: self._settings.epoch_images], self._settings.batch_size))
        if len(parts) > 1 and len(parts[-1]) == 1:
            # Batch statistics of one image mean nothing, so it joins the batch before.
            parts[-2:] = [torch.cat(parts[-2:])]
        yield from parts

    def batch(self, part: Tensor) -> Batch:
        """Crop and mirror some images."""
        settings, generator = self._settings, self._streams["augment"].generator(0)
        inputs = augment(
            self._images[part], generator, padding=settings.padding, mirror=settings.mirror
        )
        targets = functional.one_hot(self._targets[part], self._classes).float()
        return Batch(
            inputs=to_unit(inputs)[None],
            targets=targets[None],
            weights=torch.full((1, len(part)), 1 / len(part)),
            low=torch.zeros(()),
            high=torch.ones(()),
            likelihood=Categorical(self._classes),
            data=self._images,
        )

    def resume(self) -> int:
        """Return how many epochs are done already, and take up their state."""
        if self._path is None or not self._path.exists():
            return 0
        tensors, header = read_checkpoint(self._path)
        wanted = self._header(0)
        for key in ("version", "images", "settings"):
            if header.get(key) != wanted[key]:
                raise InputError(
                    f"{self._path} belongs to another training: its {key} are "
                    f"{header.get(key)!r}, here they are {wanted[key]!r}; remove it, or give "
                    "another path"
                )
        own = self._tensors()
        if {k: v.shape for k, v in own.items()} != {k: v.shape for k, v in tensors.items()}:
            raise InputError(f"{self._path} holds another network; remove it, or give another path")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
        for name, stream in self._streams.items():
            stream.restore(header["streams"][name])
        self.history = [EpochRecord(**record) for record in header["history"]]
        return int(header["epoch"])

    def _diverged(self, value: float, epoch: int, step: int) -> str:
        """Say what happened and what is left."""
        if self._path is None:
            kept = "no checkpoint was asked for; pass checkpoint= to keep the last good weights"
        elif epoch == 0:
            kept = "it is the first epoch, so there is no checkpoint yet"
        else:
            kept = f"the weights after epoch {epoch} are in {self._path}"
        return (
            f"training diverged: the loss is {value} in epoch {epoch + 1}, step {step}; "
            f"{kept}; lower learning_rate (now {self._settings.rate(epoch):g})"
        )

    def _tensors(self) -> dict[str, Tensor]:
        """Return everything that an epoch changes, by name."""
        buffers = {f"buffer.{i}": buffer for i, buffer in enumerate(self.stack.buffers)}
        memory = {f"optimizer.{name}": t for name, t in self._descent.optimizer.state().items()}
        return {"values": self.stack.parameters.values, **buffers, **memory}

    def _header(self, epoch: int) -> dict[str, Any]:
        """Return what a checkpoint says about itself."""
        return {
            "version": VERSION,
            "epoch": epoch,
            "settings": self._settings.to_plain(),
            "images": self._data,
            "streams": {name: stream.states() for name, stream in self._streams.items()},
            "history": [asdict(record) for record in self.history],
        }


def _weight_decay(stack: StackedModule, factor: float) -> Pull | None:
    """Return the pull of ``factor * sum of squares`` over all but batch norm."""
    if factor == 0:
        return None
    module = stack.module(0)
    normal = {
        f"{name}.{part}" if name else part
        for name, layer in module.named_modules()
        if isinstance(layer, _BatchNorm)
        for part, _ in layer.named_parameters()
    }
    precision = [
        torch.full((tensor.numel(),), 0.0 if name in normal else 2 * factor)
        for name, tensor in module.named_parameters()
    ]
    return Pull(torch.cat(precision))


def _checksum(images: Tensor, labels: Tensor) -> int:
    """Tell one set of images from another."""
    start = zlib.crc32(labels.numpy().tobytes())
    return zlib.crc32(images.contiguous().numpy().tobytes(), start)


def write_checkpoint(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Replace the checkpoint; one that was there stays until the new one is complete."""
    write_archive(path, tensors, json.dumps(header), KEY)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the header of a checkpoint, or say what the file is instead."""

    def check(header: Any, _shapes: Shapes) -> dict[str, Any]:
        if not isinstance(header, dict):
            raise InputError(f"it is not {WHAT}: its header is no JSON object{ADVICE}")
        return header

    header, tensors = read_archive(path, check, KEY, WHAT, ADVICE)
    return tensors, header
