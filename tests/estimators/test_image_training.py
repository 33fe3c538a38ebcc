"""Training on images: augmentation, weight decay, schedule, and going on after a kill."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from farfield.errors import InputError, NumericalOverflow
from farfield.estimators.images import ImageSettings, train_images
from farfield.estimators.images.training import augment, read_checkpoint
from farfield.objectives import ACET, CEDA


def build() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3 * 16, 2),
    )


def pictures(count: int = 60) -> tuple[Tensor, Tensor]:
    """Bright left halves and bright right halves, as bytes."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 80, (count, 1, 8, 8), generator=generator)
    labels = torch.arange(count) % 2
    images[labels == 0, :, :, :4] += 170
    images[labels == 1, :, :, 4:] += 170
    return images.to(torch.uint8), labels


QUICK: dict[str, Any] = {"epochs": 4, "batch_size": 16, "padding": 1, "learning_rate": 0.02}


def test_crops_are_windows_of_the_padded_image() -> None:
    images = torch.arange(1, 1 + 3 * 2 * 5 * 4).view(3, 2, 5, 4)
    padded = nn.functional.pad(images, (2, 2, 2, 2))
    seen = set()
    for seed in range(40):
        crops = augment(images, np.random.default_rng(seed), padding=2)
        for image, crop in zip(padded, crops, strict=True):
            places = [
                (y, x)
                for y in range(5)
                for x in range(5)
                if torch.equal(image[:, y : y + 5, x : x + 4], crop)
            ]
            assert len(places) == 1
            seen.update(places)
    assert len(seen) > 20


def test_mirroring_turns_half_of_the_images() -> None:
    images = torch.rand(200, 1, 3, 4)
    mirrored = augment(images, np.random.default_rng(0), padding=0, mirror=True)
    turned = (mirrored == images.flip(3)).flatten(1).all(1)
    kept = (mirrored == images).flatten(1).all(1)
    assert bool((turned ^ kept).all())
    assert 70 < int(turned.sum()) < 130


@pytest.mark.parametrize("objective", ["nll", CEDA(), ACET(steps=3, step_size=0.1)])
def test_learns_and_moves_no_global_state(objective: Any) -> None:
    images, labels = pictures(32)
    before = torch.get_rng_state()
    settings = ImageSettings(objective=objective, **{**QUICK, "epochs": 8})
    trained = train_images(build, images, labels, settings)
    assert torch.equal(before, torch.get_rng_state())
    assert not trained.module.training
    predicted = trained.module(images / 255).argmax(1)
    assert float((predicted == labels).double().mean()) > 0.9
    assert [record.epoch for record in trained.history] == list(range(1, 9))
    assert trained.history[-1].loss < trained.history[0].loss
    again = train_images(build, images.float() / 255, labels.numpy(), settings).module
    for name, tensor in trained.module.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], tensor)


def test_one_step_is_adam_on_the_loss_with_the_papers_weight_decay() -> None:
    images, labels = pictures(8)
    settings = ImageSettings(epochs=1, batch_size=8, padding=0, weight_decay=0.1, random_state=3)
    start = train_images(build, images, labels, ImageSettings(**{**QUICK, "epochs": 1})).module
    trained = train_images(start, images, labels, settings).module
    expected = build()
    expected.load_state_dict(start.state_dict())
    expected.train()
    loss = nn.functional.cross_entropy(expected(images / 255), labels)
    penalized = [p for name, p in expected.named_parameters() if not name.startswith("1.")]
    assert len(penalized) == 4
    total = loss + 0.1 * sum(p.square().sum() for p in penalized)
    optimizer = torch.optim.Adam(expected.parameters(), lr=1e-3)
    total.backward()
    optimizer.step()
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], tensor, atol=2e-6, rtol=1e-4)


def test_the_schedule_divides_by_ten_at_50_75_and_90_percent() -> None:
    settings = ImageSettings(epochs=20)
    rates = [settings.rate(epoch) for epoch in range(20)]
    assert rates == [1e-3] * 10 + [1e-4] * 5 + [1e-5] * 3 + [1e-6] * 2


def test_short_epochs_take_a_fresh_choice_of_images() -> None:
    images, labels = pictures()
    settings = ImageSettings(**QUICK, epoch_images=20)
    trained = train_images(build, images, labels, settings)
    assert int(trained.module[1].num_batches_tracked) == 4 * 2


def test_a_last_batch_of_one_image_joins_the_one_before() -> None:
    images, labels = pictures(17)
    trained = train_images(build, images, labels, ImageSettings(**QUICK))
    assert int(trained.module[1].num_batches_tracked) == 4


SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_image_training import QUICK, build, pictures
from farfield.estimators.images import ImageSettings, train_images
import farfield.estimators.images.training as training

whole, after = training.augment, []
def killed(*args, **options):
    after.append(1) if Path({path!r}).exists() else None
    if len(after) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(*args, **options)
training.augment = killed
settings = ImageSettings(objective="ceda", **{{**QUICK, "epochs": 8}})
train_images(build, *pictures(), settings, checkpoint={path!r})
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process the POSIX way")
def test_a_killed_training_goes_on_to_the_same_numbers(tmp_path: Path, nursery: Any) -> None:
    path = tmp_path / "run.checkpoint"
    killed = nursery.run(SCRIPT.format(here=str(Path(__file__).parent), path=str(path)))
    errors = killed.stderr.decode()
    assert killed.returncode == -signal.SIGKILL, errors
    assert path.exists(), errors
    done = read_checkpoint(path)[1]["epoch"]
    assert 1 <= done < 8, errors
    settings = ImageSettings(objective="ceda", **{**QUICK, "epochs": 8})
    resumed = train_images(build, *pictures(), settings, checkpoint=path)
    whole = train_images(build, *pictures(), settings)
    for name, tensor in whole.module.state_dict().items():
        assert torch.equal(resumed.module.state_dict()[name], tensor), name
    assert [r.loss for r in resumed.history] == [r.loss for r in whole.history]
    assert read_checkpoint(path)[1]["epoch"] == 8
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix != ".checkpoint"] == []


def test_sgd_and_batch_norm_resume_too(tmp_path: Path) -> None:
    settings = ImageSettings(optimizer="sgd", mirror=True, **QUICK)
    whole = train_images(build, *pictures(), settings)

    calls = []

    def stop_in_the_third_epoch(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return augment(*args, **options)

    path = tmp_path / "run.checkpoint"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farfield.estimators.images.training.augment", stop_in_the_third_epoch)
        with pytest.raises(KeyboardInterrupt):
            train_images(build, *pictures(), settings, checkpoint=path)
    resumed = train_images(build, *pictures(), settings, checkpoint=path)
    for name, tensor in whole.module.state_dict().items():
        assert torch.equal(resumed.module.state_dict()[name], tensor), name
    finished = train_images(build, *pictures(), settings, checkpoint=path)
    assert len(finished.history) == 4


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    images, labels = pictures()
    settings = ImageSettings(**QUICK)
    train_images(build, images, labels, settings, checkpoint=path)
    with pytest.raises(InputError, match="another training: its settings are"):
        train_images(build, images, labels, ImageSettings(), checkpoint=path)
    with pytest.raises(InputError, match="another training: its images are"):
        train_images(build, 255 - images, labels, settings, checkpoint=path)

    def other() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))

    with pytest.raises(InputError, match="another network"):
        train_images(other, images, labels, settings, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"damaged.*remove it to start anew"):
        train_images(build, images, labels, settings, checkpoint=path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(InputError, match="not a checkpoint of a training"):
        train_images(build, images, labels, settings, checkpoint=path)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_weights(tmp_path: Path) -> None:
    images, labels = pictures()
    settings = ImageSettings(**QUICK)
    path = tmp_path / "run.checkpoint"
    calls = []

    def spoil_the_second_epoch(images: Tensor, *args: Any, **options: Any) -> Tensor:
        calls.append(1)
        return images.float() * (float("nan") if len(calls) == 6 else 1 / 255)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farfield.estimators.images.training.augment", spoil_the_second_epoch)
        with pytest.raises(
            NumericalOverflow,
            match=rf"nan in epoch 2, step 2; the weights after epoch 1 are in {path}; lower",
        ):
            train_images(build, images, labels, settings, checkpoint=path)
    tensors, header = read_checkpoint(path)
    assert header["epoch"] == 1
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    with pytest.MonkeyPatch.context() as patch:
        calls.clear()
        patch.setattr("farfield.estimators.images.training.augment", spoil_the_second_epoch)
        with pytest.raises(NumericalOverflow, match="pass checkpoint="):
            train_images(build, images, labels, settings)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"images": torch.full((4, 1, 8, 8), 9.0)}, "divide them by 255"),
        ({"images": torch.zeros(4, 8, 8)}, "channel"),
        ({"labels": torch.tensor([0, 1, 2, 0])}, "0 to 1 .* got 2 at point 2"),
        ({"labels": torch.tensor([0, 1])}, "shape"),
        ({"labels": torch.tensor([0.0, 1.0, 0.0, 1.0])}, "integers"),
    ],
)
def test_bad_data_is_refused(change: Any, match: str) -> None:
    data = {"images": torch.zeros(4, 1, 8, 8), "labels": torch.tensor([0, 1, 0, 1]), **change}
    with pytest.raises(InputError, match=match):
        train_images(build, data["images"], data["labels"], ImageSettings(**QUICK))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch_size": 1}, "batch_size must be an integer of at least 2, got 1"),
        ({"epochs": 0, "padding": -1}, "epochs must be .*; padding must be"),
        ({"objective": "magic"}, "magic"),
        ({"schedule": (2,)}, "schedule"),
        ({"optimizer": "lion"}, "optimizer"),
        ({"epoch_images": 0}, "epoch_images"),
    ],
)
def test_bad_settings_are_named(options: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        ImageSettings(**options)


def test_settings_are_plain_data() -> None:
    plain = ImageSettings(objective=ACET(steps=7)).to_plain()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["objective"][0] == "acet"
    assert plain["objective"][1]["steps"] == 7


def test_progress_shows_rate_and_time_left_and_is_quiet_when_piped(capsys: Any) -> None:
    train_images(build, *pictures(), ImageSettings(**QUICK))
    assert capsys.readouterr() == ("", "")
    train_images(build, *pictures(), ImageSettings(**QUICK), progress=True)
    out, shown = capsys.readouterr()
    assert out == ""
    last = shown[shown.rindex("epoch 4/4  loss ") :]
    assert "images/s" in last
    assert "0:00:00" in last
