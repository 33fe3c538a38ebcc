"""Every breakpoint of a classifier along a ray, from the data out to infinity.

Usage: python examples/whole_ray.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import farfield as ff
from farfield.datasets import spirals
from farfield.report import save_ray


def main(folder: Path) -> None:
    data = spirals()
    model = ff.ReLUClassifier(hidden=(30, 30), epochs=60, learning_rate=0.02, random_state=0).fit(
        data.X, data.y
    )
    network = ff.capture(model)

    origin, direction = np.zeros(2), np.array([1.0, 0.35])
    lines = ff.along(network, origin, direction)
    line = lines[0]
    reached = float(lines.first_reaching(0.999)[0])
    far = ff.at_infinity(network, origin, direction)
    print(f"accuracy {model.score(data.X, data.y):.3f}, {len(line)} pieces along the ray")
    print(f"99.9% sure for the first time at t = {reached:.4f}, and")
    print(f"never less than that from t = {float(far.distance(0.999)):.4f} on")
    picture = save_ray(
        line, folder / "ray.png", threshold=0.999, reached=reached, title="Three spirals, one ray"
    )
    print(f"  {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "farfield-examples"))
