"""Train a small scikit-learn classifier, then ask what it says infinitely far out.

Every feature is pushed to plus and minus infinity from the mean of the data. The answers are exact,
and with ``certify=True`` every decision behind them is proven.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff


def main() -> None:
    data = load_breast_cancer()
    model = make_pipeline(
        StandardScaler(), MLPClassifier((32, 32), max_iter=500, random_state=0)
    ).fit(data.data, data.target)

    network = ff.capture(model)
    axes = np.eye(len(data.feature_names))
    far = ff.at_infinity(
        network, data.data.mean(axis=0), np.concatenate([axes, -axes]), certify=True
    )

    print(f"accuracy on the training data: {model.score(data.data, data.target):.3f}")
    print(f"decisions proven on {int(far.certified.sum())} of {len(far)} rays")
    blind = int((far.confidence >= 0.99).sum())
    print(f"at infinity it is 99% sure or more on {blind} of {len(far)} rays, for example:")
    for index in far.distance(0.999)[0].argsort()[:5].tolist():
        feature = data.feature_names[index % len(axes)]
        end = "up" if index < len(axes) else "down"
        label = data.target_names[far.label[index]]
        distance = float(far.distance(0.999)[0, index])
        print(f"  {feature} {end}: {label}, 99.9% sure from {distance:.3g} beyond the mean on")


if __name__ == "__main__":
    main()
