"""Files of boosted trees: whole ones of three libraries, and ways to change their text."""

import json
import tempfile
from functools import cache
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost

from fuzz.mutations import NUMBERS, change_tree


def frame():
    """Numbers and categories, some of them missing, and three classes."""
    rng = np.random.default_rng(0)
    held = pd.DataFrame(
        {"a": rng.normal(size=90), "b": rng.normal(size=90), "c": rng.choice(list("uvwx"), 90)}
    )
    held.loc[::7, "b"] = np.nan
    held["c"] = held["c"].astype("category")
    codes = held["c"].cat.codes
    return held, ((held["a"] > 0) + (codes > 1)).to_numpy()


def xgboost_models():
    """Two classes with a weight per tree, three with categories, three with vector leaves."""
    held, y = frame()
    few = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
    numbers = held[["a", "b"]]
    yield xgboost.XGBClassifier(**few, booster="dart", rate_drop=0.5).fit(numbers, y > 0)
    yield xgboost.XGBClassifier(**few, enable_categorical=True, max_cat_to_onehot=1).fit(held, y)
    yield xgboost.XGBClassifier(**few, multi_strategy="multi_output_tree").fit(numbers, y)


@cache
def xgboost_json():
    return [bytes(model.get_booster().save_raw("json")) for model in xgboost_models()]


def xgboost_binary():
    return [bytes(model.get_booster().save_raw("ubj")) for model in xgboost_models()]


def lightgbm_text():
    """Two classes with categories, and three in a random forest."""
    held, y = frame()
    few = {"n_estimators": 2, "num_leaves": 3, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
    few |= {"min_data_per_group": 3, "subsample": 0.7, "subsample_freq": 1}
    return [
        lightgbm.LGBMClassifier(**few).fit(held, y > 0).booster_.model_to_string().encode(),
        lightgbm.LGBMClassifier(**few, boosting_type="rf")
        .fit(held[["a", "b"]], y)
        .booster_.model_to_string()
        .encode(),
    ]


def catboost_json():
    """Oblivious trees of three classes, and others of two."""
    held, y = frame()
    few = {"iterations": 2, "depth": 2, "verbose": 0, "allow_writing_files": False}
    out = []
    for options, labels in (({}, y), ({"grow_policy": "Depthwise"}, y > 0)):
        model = catboost.CatBoostClassifier(**few, **options, thread_count=1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            model.fit(held[["a", "b"]], labels).save_model(str(path), format="json")
            out.append(path.read_bytes())
    return out


def change_lines(data, random):
    """Change the meaning of lines ``key=values``: values, how many there are, keys, whole lines."""
    lines = data.decode("latin-1").split("\n")
    for _ in range(random.randint(1, 4)):
        # What comes after the trees is hardly read.
        place = random.randrange(min(len(lines), 60))
        key, sign, value = lines[place].partition("=")
        words = value.split(" ")
        kind = random.randrange(7)
        odd = random.choice([*map(str, NUMBERS), "nan", "inf", "-inf", "1e999", "1e-36", "", "x"])
        if kind == 0:
            words[random.randrange(len(words))] = odd
        elif kind == 1:
            words.append(random.choice([*words, odd]))
        elif kind == 2:
            words.pop()
        elif kind == 3:
            lines.insert(place, lines[random.randrange(len(lines))])
            continue
        elif kind == 4:
            del lines[place]
            continue
        elif kind == 5:
            key = random.choice(lines).partition("=")[0]
        else:
            random.shuffle(words)
        lines[place] = key + sign + " ".join(words)
    return "\n".join(lines).encode("latin-1")


def packed(value):
    """UBJSON of what JSON holds."""
    if isinstance(value, dict):
        parts = [text(key) + packed(each) for key, each in value.items()]
        return b"{" + b"".join(parts) + b"}"
    if isinstance(value, list):
        if value and all(isinstance(each, float) for each in value):
            numbers = np.array(value).astype(">f8").tobytes()
            return b"[$D#L" + len(value).to_bytes(8, "big") + numbers
        return b"[#L" + len(value).to_bytes(8, "big") + b"".join(map(packed, value))
    if isinstance(value, str):
        return b"S" + text(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return b"L" + value.to_bytes(8, "big", signed=True)
    return b"D" + np.array(float(value)).astype(">f8").tobytes()


def text(value):
    raw = value.encode("utf-8", "surrogatepass")
    return b"L" + len(raw).to_bytes(8, "big") + raw


def rewrite(data, random):
    """Change the meaning of XGBoost's JSON, and write it in binary."""
    trees = [json.loads(each) for each in xgboost_json()]
    return packed(change_tree(random.choice(trees), random))
