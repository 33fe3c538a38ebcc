import numpy as np
import pytest
import torch
from torch import nn

from farfield.errors import InputError
from farfield.guard import Certificate, guard, read_certificate

pytestmark = pytest.mark.usefixtures("few_folds")


def near_and_far(columns, count=300):
    generator = torch.Generator().manual_seed(0)
    scales = torch.logspace(-1, 8, count)[:, None]
    return torch.randn(count, columns, generator=generator) * scales


def run_onnx(path, rows):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"x": rows.numpy()})[0]), session


def test_onnx_has_the_same_numbers_and_the_certificate(safe, tmp_path):
    pytest.importorskip("onnxscript")
    path = tmp_path / "safe.onnx"
    safe.to_onnx(path)
    rows = near_and_far(2)
    got, session = run_onnx(path, rows)
    assert float((got - safe(rows)).abs().max()) <= 1e-5
    assert bool((got.argmax(dim=1) == safe.unguarded(rows).argmax(dim=1)).all())
    text = session.get_modelmeta().custom_metadata_map["farfield.certificate"]
    assert Certificate.from_json(text) == safe.certificate
    assert Certificate.from_json(read_certificate(path)) == safe.certificate
    one, _ = run_onnx(path, rows[:1])
    assert one.shape == (1, 2)


def test_onnx_of_other_kinds(mlp, table, tmp_path):
    pytest.importorskip("onnxscript")
    members = [mlp(8, 6, 1, seed=seed) for seed in range(2)]
    rows = near_and_far(8)
    rows = torch.cat([rows, torch.tensor(table, dtype=torch.float32)])
    for model, options in [
        (members, {"categorical": [(3, 4, 5, 6), 7]}),
        (mlp(8, 6, 3), {}),
    ]:
        safe = guard(model, table[:150], **options)
        safe.to_onnx(tmp_path / "other.onnx")
        got, _ = run_onnx(tmp_path / "other.onnx", rows)
        assert float((got - safe(rows)).abs().max()) <= 1e-5


def test_onnx_of_images(tmp_path):
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))
    images = torch.rand(60, 2, 6, 6)
    safe = guard(model, images)
    safe.to_onnx(tmp_path / "images.onnx")
    rows = torch.cat([images, images * 100])
    got, _ = run_onnx(tmp_path / "images.onnx", rows)
    assert float((got - safe(rows)).abs().max()) <= 1e-5


def test_files_without_a_certificate(tmp_path, mlp):
    with pytest.raises(InputError, match="no file"):
        read_certificate(tmp_path / "nothing.onnx")
    program = torch.export.export(mlp(2, 2), (torch.zeros(2, 2),))
    torch.export.save(program, tmp_path / "plain.pt2")
    with pytest.raises(InputError, match="no certificate"):
        read_certificate(tmp_path / "plain.pt2")
    (tmp_path / "text.onnx").write_text("text")
    with pytest.raises(InputError, match="ONNX"):
        read_certificate(tmp_path / "text.onnx")


def test_exports_are_numpy_friendly(safe):
    assert isinstance(safe.predict_proba(np.zeros((3, 2))), np.ndarray)
