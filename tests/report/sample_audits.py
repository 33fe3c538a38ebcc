"""Made-up audits of every kind, as rich as real ones and worse: nothing here was computed."""

import base64
import math
import struct
import zlib
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np

from farfield.audit.fields.directions import Family
from farfield.audit.fields.drawings import Picture, Ray, Surface
from farfield.audit.fields.facts import DataFacts, ModelFacts, Provenance
from farfield.audit.fields.features import Collapse, End, Feature, Value
from farfield.audit.fields.flips import Flip, Middle
from farfield.audit.fields.quality import Bin, Detected, Health, OutSet
from farfield.audit.fields.repair import BeforeAfter, GuardedFeature, Remedy
from farfield.audit.fields.verdict import Verdict
from farfield.audit.fields.what_if import WhatIf, WhatIfColumn, WhatIfCurve, WhatIfRow
from farfield.audit.record import Audit
from farfield.evaluate import Estimate

INF = math.inf
NAN = math.nan
SCORES = ("one_minus_max_probability", "predictive_entropy", "negative_max_logit", "energy")
MEMBER_SCORES = ("class_variance", "mutual_information", "expected_entropy")
STEPS = (-INF, *np.round(-np.geomspace(300, 0.1, 20), 3), 0.0, *np.geomspace(0.1, 300, 20), INF)
NAMES = (
    "mean radius", "mean texture", "mean perimeter", "mean area", "mean smoothness",
    "mean compactness", "mean concavity", "mean concave points", "mean symmetry",
    "mean fractal dimension", "radius error", "texture error", "perimeter error", "area error",
    "smoothness error", "compactness error", "concavity error", "concave points error",
    "symmetry error", "fractal dimension error", "worst radius", "worst texture",
    "worst perimeter", "worst area", "worst smoothness", "worst compactness", "worst concavity",
    "worst concave points", "worst symmetry", "worst fractal dimension",
)  # fmt: skip
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\"><svg onload=alert(2)>'",
    "{{ 7*7 }}{% raw %}",
    "שלום \u202eevil\u202c עולם",
    "$100_000 & 50% #1 ~^\\{x}",
    "a\u2028b\u2029c\x00d\ttab\nnewline",
    "long " * 400,
    "<!--",
    "",
)


def estimate(value, width=0.02, lowest=0.0, highest=1.0, method="bootstrap"):
    return Estimate(value, max(lowest, value - width), min(highest, value + width), 0.95, method)


def curve(rng, low, high):
    """From one limit through a dip at the data to another."""
    x = np.linspace(-1, 1, len(STEPS))
    dip = 0.55 + 0.3 * rng.random()
    ends = np.where(x < 0, low, high)
    return tuple((dip + (ends - dip) * np.abs(np.tanh(3 * (x - 0.2 * rng.normal())))).tolist())


def end(rng, classes, blind, std, sign, edge, *, members=1, bound=None):
    label = classes[int(rng.integers(len(classes)))]
    top = 1.0 if blind else 0.5 + 0.4 * rng.random()
    first = float(rng.lognormal(1.0, 0.8)) * std
    distances = (INF,) * 3 if not blind else (0.4 * first, first, 3.1 * first)
    votes = {label: top if members > 1 else 1.0}
    if members > 1 and top < 1:
        votes[classes[(classes.index(label) + 1) % len(classes)]] = 1 - top
    names = SCORES + (MEMBER_SCORES if members > 1 else ())
    return End(
        bound=bound,
        label=label,
        share=1.0 if blind else 0.83,
        confidence=(0.97 * top, top, top),
        blind=1.0 if blind else 0.0,
        votes=votes,
        distance=distances,
        beyond=tuple(each / std - 1.5 for each in distances),
        assumptions=None if bound is not None else 0.94,
        scores={name: float(rng.random()) for name in names},
        value=tuple(sign * (edge + each - 1.5 * std) for each in distances),
    )


def numeric(rng, name, classes, *, unit="", bounds=(None, None), members=1, blind=0.9):
    std = float(rng.lognormal(0, 2))
    mean = float(rng.normal(0, 5)) * std
    sides = [
        end(
            rng,
            classes,
            bool(rng.random() < blind),
            std,
            sign,
            sign * mean + reach * std,
            members=members,
            bound=bound,
        )
        for bound, sign, reach in zip(bounds, (-1.0, 1.0), (2.0, 3.0), strict=True)
    ]
    return Feature(
        name=name,
        kind="numeric" if bounds == (None, None) else "bounded",
        unit=unit,
        low=mean - 2 * std,
        high=mean + 3 * std,
        mean=mean,
        std=std,
        down=sides[0],
        up=sides[1],
        curve=curve(rng, sides[0].confidence[1], sides[1].confidence[1]),
    )


def categorical(rng, name, values):
    return Feature(
        name, "categorical", "", NAN, NAN, NAN, NAN, None, None, (),
        tuple(
            Value(value, int(rng.integers(1, 900)), (0.91, 0.5 + 0.5 * float(rng.random())),
                  0.3 * float(rng.random()))
            for value in values
        ),
    )  # fmt: skip


def ray(rng, name, *, members=1, unit="standard deviations"):
    t = np.concatenate([[0.0], np.geomspace(0.03, 3000, 90)])
    centre = 10 ** rng.normal(0.5, 0.6)
    limit = 1.0 if rng.random() < 0.8 else 0.62
    confidence = 0.93 - 0.3 * np.exp(-(np.log(np.maximum(t, 1e-3) / centre) ** 2))
    confidence = confidence + (limit - confidence) / (1 + (centre * 4 / np.maximum(t, 1e-9)) ** 2)
    scores = {"confidence": tuple(confidence.tolist())}
    limits = {"confidence": limit}
    for name_of_score in SCORES + (MEMBER_SCORES if members > 1 else ()):
        grows = name_of_score in ("negative_max_logit", "energy")
        values = -t * 0.7 - 2 if grows else (1 - confidence) * 1.4
        scores[name_of_score] = tuple(values.tolist())
        limits[name_of_score] = -INF if grows else (1 - limit) * 1.4
    first = float(5 * centre) if limit == 1 else INF
    return Ray(
        name, unit, tuple(t.tolist()), scores, limits, float(9 * centre), first, 143,
        settled=1.5 * first, final=1.2 * first if limit == 1 else float(2 * centre),
    )  # fmt: skip


def what_if(names=NAMES[:5], classes=2, titles=("the median row", "typical of benign")):
    """Two numbers at most of which have no end, and a category; the class changes at 0."""
    places = (-INF, *(float(each) for each in range(-30, 31)), INF)
    columns = [WhatIfColumn(name, "mm", places, (), -5.0, 5.0) for name in names]
    columns.append(WhatIfColumn("ward", "", (0.0, 1.0, 2.0), ("icu", "surgery", "other"), 0.0, 2.0))

    def curve(column):
        count = len(column.values)
        label = tuple((index > count // 2) % classes for index in range(count))
        sure = tuple(0.5 + abs(index - count // 2) / count for index in range(count))
        guarded = tuple(0.5 if index in (0, count - 1) else each for index, each in enumerate(sure))
        return WhatIfCurve(label, sure, guarded)

    rows = tuple(
        WhatIfRow(title, (*[4.0] * len(names), 1.0), 1, 0.56, 0.56, tuple(map(curve, columns)))
        for title in titles
    )
    return WhatIf(tuple(columns), rows)


def flip(name, half, *, kind="numeric", exact=True):
    quantiles = () if kind == "categorical" else (0.1 * half, 0.5 * half, half, INF)
    low, high = (half, half) if exact else (0.5 * half, INF)
    return Flip(
        name, "mm", kind, 40, estimate(0.9), estimate(0.2), Middle(half, low, high), quantiles,
        Middle(2 * half, 2 * low, 2 * high), exact,
    )  # fmt: skip


FLIPS = (
    flip("mean radius", 0.4),
    flip("mean texture", 12.5, exact=False),
    flip("mean area", INF),
    flip("ward", NAN, kind="categorical"),
)


def grid(values):
    """Bytes as the layout keeps them."""
    low, high = float(values.min()), float(values.max())
    scaled = np.round(255 * (values - low) / ((high - low) or 1)).astype(np.uint8)
    return base64.b64encode(scaled.tobytes()).decode(), (low, high)


def surface(rng, x, y, size=64):
    a, b = np.meshgrid(np.linspace(-3, 3, size), np.linspace(-3, 3, size))
    logit = 2 * a * rng.normal() + b**2 - 1.5 + rng.normal() * a * b
    probability = 1 / (1 + np.exp(-logit))
    layers = {
        "one_minus_max_probability": 1 - np.maximum(probability, 1 - probability),
        "predictive_entropy": -probability * np.log2(probability + 1e-12),
        "gradient": np.hypot(*np.gradient(probability)),
    }
    coded = {name: grid(values) for name, values in layers.items()}
    lines = rng.normal(size=(40, 2)) * 1.5
    edges = tuple(
        (-3.0, float(p + q), 3.0, float(p - q)) if abs(p) + abs(q) < 3 else (0.0, -3.0, 0.5, 3.0)
        for p, q in lines
    )
    centres = rng.normal(size=(80, 2))
    points = tuple((float(10 + 2 * p), float(100 + 30 * q), int(p + q > 0)) for p, q in centres)
    return Surface(
        x, y, (4.0, 16.0, 10.0, 190.0), (size, size),
        {name: text for name, (text, _) in coded.items()},
        {name: spread for name, (_, spread) in coded.items()},
        tuple((10 + 2 * p, 100 + 30 * q, 10 + 2 * r, 100 + 30 * s) for p, q, r, s in edges),
        ((4.0, 60.0, 9.0, 120.0), (9.0, 120.0, 16.0, 130.0)),
        812,
        points,
    )  # fmt: skip


def family(rng, name, title, share, classes, members=1):
    value = share.value if isinstance(share, Estimate) else share
    names = SCORES + (MEMBER_SCORES if members > 1 else ())
    half = tuple(sorted((rng.random(5) * 0.3 + 0.7 * value).clip(0, 1).tolist()))
    return Family(
        name, title, share, 2000,
        (1.0,) * 5 if value == 1 else half,
        {each: 1 / len(classes) for each in classes},
        31.5,
        (2.2, 8.7, 41.0) if value > 0.5 else (3.0, INF, INF),
        dict.fromkeys(names, (0.0, 0.1, 0.4)),
        0.0 if members == 1 else 1 - value,
    )  # fmt: skip


def health(rng, classes):
    edges = np.linspace(0.5, 1, 11)
    bins = tuple(
        Bin(float(a), float(b), int(rng.integers(0, 400)), float((a + b) / 2),
            float(np.clip((a + b) / 2 - 0.06 + 0.03 * rng.normal(), 0, 1)))
        for a, b in pairwise(edges)
    )  # fmt: skip
    numbers = {
        "accuracy": estimate(0.956),
        "nll": estimate(0.142, 0.03, highest=INF),
        "brier": estimate(0.071),
        "ece": estimate(0.023, 0.01),
    }
    return Health(10_000, numbers, bins, 0.968)


def detected(rng, name, rows=2000):
    scores = [(each, False) for each in SCORES]
    scores += [("mahalanobis", True), ("nearest", True), ("nearest_penultimate", True)]
    return tuple(
        Detected(name, score, reference, estimate(0.6 + 0.39 * float(rng.random()), 0.01),
                 estimate(0.5 + 0.49 * float(rng.random()), 0.01),
                 estimate(float(rng.random()), 0.03), rows)
        for score, reference in scores
    )  # fmt: skip


REMEDIES = (
    Remedy("Guard", "Keeps every predicted class; far away, confidence falls to 1/2.", True,
           "farfield guard model.onnx --data train.csv -o guarded.onnx"),
    Remedy("Ensemble", "Trains ten models; helps where they disagree.", False,
           "farfield train ensemble --data train.csv --label outcome -o ensemble"),
)  # fmt: skip
GUARD = BeforeAfter(
    "Beyond 3 data radii no class has a probability above 51%.",
    {"accuracy": (0.956, 0.956), "blind, features": (1.0, 0.0), "blind, random": (0.998, 0.0),
     "ece": (0.023, 0.022)},
    {"radii": 3.0, "epsilon": 0.01, "bound": "product of operator norms", "growth": 118.2},
    (
        GuardedFeature("mean radius", "mm", (1.0, 0.98), (0.5, 0.5), (-41.0, 77.3)),
        GuardedFeature("share", "", (0.7, None), (0.64, None), (None, None)),
    ),
)  # fmt: skip
PROVENANCE = Provenance(
    "0.1.0",
    {"python": "3.12.3", "torch": "2.13.0", "numpy": "2.2.1"},
    "x86_64, 2 cores",
    0,
    11.7,
    "2025-06-01T12:00:00+00:00",
    {"threshold": "0.99", "rays": "2000", "sampled": "500"},
)


@cache
def tabular(seed=0, *, members=1, guard=True):
    """A network, or an ensemble, on 30 numeric features with units and everything asked for."""
    rng = np.random.default_rng(seed)
    classes = ("benign", "malignant")
    blind = 0.9 if members == 1 else 0.45
    units = ["mm", "", "mm", "mm²"]
    features = tuple(
        numeric(rng, name, classes, unit=units[index % 4], members=members, blind=blind)
        for index, name in enumerate(NAMES)
    )
    sampled = Estimate(0.998, 0.9949, 0.9995, 0.95, "Clopper-Pearson")
    if members > 1:
        sampled = Estimate(0.412, 0.39, 0.434, 0.95, "Clopper-Pearson")
    families = (
        family(rng, "features", "Each feature alone, up and down", 1.0 if members == 1 else 0.43,
               classes, members),
        family(rng, "random", "Random directions, shaped like the data", sampled, classes, members),
        family(rng, "towards other hospital", "Towards rows of other hospital",
               Estimate(0.87, 0.84, 0.895, 0.95, "Clopper-Pearson"), classes, members),
    )  # fmt: skip
    worst = max(families, key=lambda each: getattr(each.share, "value", each.share))
    value = getattr(worst.share, "value", worst.share)
    pairs = (("mean radius", "mean texture"), ("worst area", "mean concavity"))
    return Audit(
        verdict=Verdict(
            False, value, worst.name, 0.99, 0.05,
            "Blind: at infinity the model is at least 99% sure in both directions of every "
            "feature; 5% were allowed.",
        ),
        task="classification",
        model=ModelFacts("model.onnx", "onnx", members, (30,), classes, 74_242 * members,
                         ("softmax at the end was read as part of the head",), "ab" * 32),
        data=DataFacts("train.csv", 10_000, 30, {"benign": 6274, "malignant": 3726},
                       {"mean texture": 12}, ("mean symmetry",), 500, "cd" * 32),
        families=families,
        features=features,
        curve_steps=tuple(map(float, STEPS)),
        rays=tuple(ray(rng, name, members=members) for name in
                   ("mean radius up", "mean radius down", "mean texture up", "random 1",
                    "random 2", "towards other hospital 1")),
        surfaces=tuple(surface(rng, *pair) for pair in pairs),
        health=health(rng, classes),
        detection=detected(rng, "other hospital") + detected(rng, "uniform noise"),
        out_sets=(OutSet("other hospital", "b.csv", 2000, 0.941, 0.61),
                  OutSet("uniform noise", "noise.npz", 2000, 0.997, 0.95)),
        pictures=(),
        collapses=(),
        flips=FLIPS,
        what_if=what_if(),
        remedies=REMEDIES,
        guard=GUARD if guard else None,
        provenance=PROVENANCE,
    )  # fmt: skip


@cache
def ensemble():
    """Ten members that often disagree."""
    return tabular(1, members=10, guard=False)


@cache
def mixed():
    """Credit data: categorical, bounded and unbounded features, three classes, a limit kept."""
    rng = np.random.default_rng(2)
    classes = ("repaid", "late", "default")
    features = (
        numeric(rng, "age", classes, unit="years", bounds=(18.0, 120.0), blind=0.2),
        numeric(rng, "income", classes, unit="EUR", bounds=(0.0, None), blind=0.0),
        numeric(rng, "balance", classes, unit="EUR", blind=0.0),
        categorical(rng, "purpose", ("car", "education", "furniture", "repairs", "other")),
        categorical(rng, "married", ("no", "yes")),
        replace(numeric(rng, "branch", classes), down=None, up=None, curve=()),
    )
    base = tabular(2)
    return replace(
        base,
        verdict=Verdict(True, 0.0, "features", 0.99, 0.05,
                        "Passed: no feature makes the model 99% sure at its end."),
        model=replace(base.model, classes=classes, inputs=(11,), sha256=None, notes=()),
        data=DataFacts("loans.parquet", 48_213, 11,
                       {"repaid": 40_000, "late": 6000, "default": 2213}, {}, ("branch",), 500),
        families=(family(rng, "features", "Each feature alone, up and down", 0.0, classes),),
        features=features,
        rays=base.rays[:1],
        surfaces=(surface(rng, "age", "income"),),
        health=None, detection=(), out_sets=(), guard=None,
    )  # fmt: skip


def png(rng):
    """A tiny gray picture as a data URI."""
    size = 28
    noise = rng.integers(0, 256, (size, size), dtype=np.uint8)
    raw = b"".join(b"\x00" + row.tobytes() for row in noise)

    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    text = base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()
    return f"data:image/png;base64,{text}"


@cache
def images():
    """A network on 28 x 28 images."""
    rng = np.random.default_rng(3)
    classes = tuple(map(str, range(10)))
    base = tabular(3)
    pictures = tuple(
        Picture(f"Test image {index}, a {index}", (png(rng), png(rng)),
                ("the image: 98.2% sure of 3", "11.3 times as bright: 99.9% sure of 8"),
                ray(rng, f"image {index}", unit="times the image"))
        for index in range(6)
    )  # fmt: skip
    return replace(
        base,
        verdict=replace(base.verdict, passed=None, max_blind=None, family="scaled images"),
        model=replace(base.model, inputs=(1, 28, 28), classes=classes),
        data=replace(base.data, features=784, class_counts=dict.fromkeys(classes, 1000),
                     missing={}, constant=()),
        families=(family(rng, "scaled images", "Images, made ever brighter", 1.0, classes),
                  family(rng, "noise", "Uniform noise, made ever brighter",
                         estimate(0.991, 0.004), classes)),
        features=(), surfaces=(), pictures=pictures, guard=None, flips=(), what_if=None,
        rays=tuple(each.ray for each in pictures),
    )  # fmt: skip


@cache
def regressor():
    """A deep ensemble for regression."""
    rng = np.random.default_rng(4)
    names = NAMES[:8]
    base = tabular(4)
    numbers = {
        "rmse": estimate(3.28, 0.4, highest=INF),
        "nll": estimate(2.41, 0.2, highest=INF),
        "coverage": estimate(0.93),
    }
    features = tuple(
        replace(numeric(rng, name, ("price",)), down=None, up=None, curve=()) for name in names
    )
    return replace(
        base,
        task="regression",
        verdict=Verdict(None, 0.4375, "features", 0.99, None,
                        "The predicted scale collapses in 7 of 16 directions."),
        model=replace(base.model, classes=("price",), instances=5),
        data=replace(base.data, features=8, class_counts={}),
        features=features,
        health=Health(506, numbers),
        detection=(), out_sets=(), surfaces=(), guard=None, flips=(), what_if=None,
        collapses=tuple(
            Collapse(name, side, float(rng.random()), float(rng.normal()), float(rng.random()))
            for name in names for side in ("down", "up")
        ),
    )  # fmt: skip


@cache
def wide(count=160, seed=5):
    """As many features as asked for."""
    rng = np.random.default_rng(seed)
    classes = ("no", "yes")
    base = tabular(seed)
    features = tuple(numeric(rng, f"feature {index:05d}", classes) for index in range(count))
    return replace(
        base,
        features=features,
        model=replace(base.model, inputs=(count,)),
        data=replace(base.data, features=count),
    )


def broken_end(label):
    return End(
        NAN, label, NAN, (NAN, INF, -INF), -7.0, {label: NAN}, (NAN, INF, -INF), (NAN, INF, -INF),
        NAN, {label: NAN, "energy": -INF},
    )  # fmt: skip


@cache
def hostile():
    """Names that try to break out of their place, and numbers that are none."""
    rng = np.random.default_rng(6)
    base = tabular(6)
    first = HOSTILE[0]
    bad_ray = Ray(first, HOSTILE[1], (0.0, NAN, INF), {first: (NAN, INF, -INF), "confidence": ()},
                  {first: NAN}, NAN, INF, None)  # fmt: skip
    features = [numeric(rng, name, HOSTILE[:2], unit=HOSTILE[4]) for name in HOSTILE]
    features += [
        replace(features[0], down=broken_end(first), up=broken_end(""), curve=(NAN, INF, 0.5),
                low=-INF, high=NAN),
        replace(categorical(rng, first, HOSTILE), values=(Value(first, 0, (NAN, INF), NAN),)),
    ]  # fmt: skip
    bad_family = Family(HOSTILE[2], first, NAN, 0, (), {first: NAN}, INF, (), {}, NAN)
    picture = Picture(first, ("javascript:alert(3)", 'x" onerror="alert(4)'), (first,), bad_ray)
    return replace(
        base,
        warnings=HOSTILE,
        flips=tuple(flip(name, NAN) for name in HOSTILE),
        what_if=WhatIf(
            (WhatIfColumn(first, HOSTILE[1], (NAN, 1.0, INF), (), NAN, INF),
             WhatIfColumn(HOSTILE[3], "", (0.0,), (HOSTILE[0],), 0.0, 0.0)),
            (WhatIfRow(first, (NAN, 7.0), 99, NAN, NAN, (
                WhatIfCurve((-1, 99, 0), (NAN, 0.5, INF), ()), WhatIfCurve((3,), (0.5,)))),),
        ),
        verdict=Verdict(None, NAN, first, NAN, NAN, first),
        model=replace(base.model, source=first, classes=HOSTILE, notes=HOSTILE, inputs=()),
        data=replace(base.data, source=first, class_counts={first: 3}, missing={first: 1},
                     constant=HOSTILE, notes=HOSTILE),
        families=(*base.families, bad_family),
        features=tuple(features),
        rays=(bad_ray, *base.rays),
        surfaces=(replace(base.surfaces[0], x=first, y=HOSTILE[3],
                          points=((NAN, INF, 99), (10.0, 100.0, -1))),
                  replace(base.surfaces[0], grids={first: "not base64!"}, ranges={},
                          extent=(NAN, INF, 0.0, 0.0), points=())),
        health=replace(base.health, numbers={first: estimate(0.5)}, mmc=NAN, baseline=NAN,
                       reliability=(Bin(NAN, INF, 0, NAN, NAN),)),
        detection=detected(rng, first),
        out_sets=(OutSet(first, HOSTILE[1], 0, NAN, NAN),),
        pictures=(picture,),
        collapses=(Collapse(first, "up", NAN, INF, -INF),),
        remedies=(Remedy(first, HOSTILE[1], True, HOSTILE[4]),),
        guard=BeforeAfter(
            first,
            {first: (NAN, INF)},
            {first: HOSTILE[1], "x": NAN},
            (GuardedFeature(first, HOSTILE[1], (NAN, INF), (-INF, None), (NAN, INF)),),
        ),
        provenance=replace(base.provenance, versions={first: first}, settings={first: first}),
    )  # fmt: skip


@cache
def bare():
    """The least that an audit can hold."""
    base = tabular(7)
    return replace(
        base,
        families=(), features=(), curve_steps=(), rays=(), surfaces=(), health=None,
        detection=(), out_sets=(), remedies=(), guard=None, flips=(), what_if=None,
        data=replace(base.data, class_counts={}, missing={}, constant=()),
    )  # fmt: skip


EVERY = {
    "tabular": tabular,
    "ensemble": ensemble,
    "mixed": mixed,
    "images": images,
    "regressor": regressor,
    "wide": wide,
    "hostile": hostile,
    "bare": bare,
}
