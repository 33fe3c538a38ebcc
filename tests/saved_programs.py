"""Programs as ``.pt2`` files, and the comparison of what is read from them with the module."""

import warnings
import zipfile

import torch

import farfield as ff
from farfield.graph.export import export_module
from farfield.graph.pt2.reader import load_pt2


def save(module, rows, path):
    """Write a module as torch does, with a free number of rows; what was written."""
    exported = export_module(module, rows)
    with warnings.catch_warnings():  # torch.export warns about its own internals
        warnings.simplefilter("ignore")
        torch.export.save(exported, path)
    return exported


def check_saved(module, rows, path):
    """The file says to the bit what the program in memory says, watched or traced."""
    expected = ff.capture(save(module, rows, path))
    network = ff.capture(path)
    assert repr(network) == repr(expected)
    assert (network.head, network.notes) == (expected.head, expected.notes)
    for ours, theirs in zip(network.groups, expected.groups, strict=True):
        steps = [(step.target, step.shape, step.constant) for step in theirs.program.steps]
        assert [(step.target, step.shape, step.constant) for step in ours.program.steps] == steps
        assert ours.program.width == theirs.program.width
    traced = ff.capture(load_pt2(path))
    for each in (network, traced):
        assert torch.equal(each.logits(rows), expected.logits(rows))


def rewritten(path, change, name="changed.pt2", **options):
    """Write the archive again with every entry passed through ``change``; ``None`` drops it."""
    target = path.with_name(name)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", **options) as sink:
        for entry in source.namelist():
            data = change(entry, source.read(entry))
            if data is not None:
                sink.writestr(entry, data)
    return target
