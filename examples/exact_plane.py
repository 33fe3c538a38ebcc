"""The exact linear regions of a small classifier, and where it is blind, in the plane.

Nine clusters and a 2-5-5-9 network, as in Figure 1 of the first version of Know Your Limits.

Usage: python examples/exact_plane.py [FOLDER]
"""

import sys
from pathlib import Path

import farfield as ff
from farfield.datasets import nine_clusters
from farfield.report import save_plane


def main(folder: Path) -> None:
    data = nine_clusters()
    model = ff.ReLUClassifier(
        hidden=(5, 5), epochs=100, batch_size=8, learning_rate=1e-2, random_state=1
    ).fit(data.X, data.y)
    network = ff.capture(model)

    plane = ff.slice_plane(network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], 5.0)
    picture = save_plane(
        plane,
        folder / "regions.png",
        points=data.X,
        labels=data.y,
        title=f"{len(plane)} exact linear regions",
        axes=("x1", "x2"),
    )
    region = ff.linearize(network, data.X[:100])
    arcs = ff.blind_arcs(network, threshold=0.99)
    print(f"accuracy {model.score(data.X, data.y):.3f}, {len(plane)} regions in the window")
    print(f"median distance from a point to the edge of its region: {region.radius().median():.3g}")
    print(f"blind in {arcs.share:.2%} of all directions, in {len(arcs)} arcs")
    print(f"  {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "farfield-examples"))
