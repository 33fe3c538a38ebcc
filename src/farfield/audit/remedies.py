"""What can be done about a blind model, in the order in which to try it."""

from __future__ import annotations

from farfield.audit.findings import Remedy, Task
from farfield.audit.subject import Subject


def remedies(task: Task, subject: Subject) -> tuple[Remedy, ...]:
    """List the remedies that exist for a kind of model."""
    instances, is_image = subject.model.instances, subject.is_image
    if task == "regression":
        return (
            Remedy(
                "More members",
                "An ensemble's spread grows linearly in every direction in which two members' "
                "slopes differ; a single network has no spread at all.",
                False,
                "ff.EnsembleRegressor(members=10).fit(X, y)",
            ),
        )
    found = [
        Remedy(
            "Guard",
            "Same class everywhere, bit-identical probabilities where the data is, and no class "
            "above 1/K + epsilon beyond a stated radius, in every direction.",
            True,
            "farfield guard MODEL --data FILE -o safe.onnx",
        )
    ]
    if instances == 1:
        found.append(
            Remedy(
                "Ensemble",
                "Directions in which members end in different classes are no longer blind; where "
                "they are unanimous nothing changes.",
                False,
                "farfield train ensemble --data FILE --label COLUMN -o ensemble",
            )
        )
    found.append(
        Remedy(
            "Train against noise" if not is_image else "Train against noise images",
            "CEDA and ACET push the confident region away from the data; at infinity the network "
            "stays blind.",
            False,
            "farfield train relu --objective acet --data FILE --label COLUMN -o acet",
        )
    )
    if not is_image:
        found.append(
            Remedy(
                "Radial basis functions",
                "A network of another kind, with a radius beyond which every class is within "
                "epsilon of 1/K (Hein et al. 2019, Theorem 3.2).",
                True,
                "farfield train rbf --data FILE --label COLUMN -o rbf",
            )
        )
    return tuple(found)
