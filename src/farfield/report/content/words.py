"""Numbers and names of an audit as plain words; shared by the page, the console and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence

from farfield.estimate import Estimate

NEVER = "never"
NOT_SEEN = "not seen"
UNKNOWN = "not known"

SCORES = {
    "confidence": "Confidence",
    "gradient": "Gradient magnitude",
    "one_minus_max_probability": "1 \N{MINUS SIGN} largest probability",
    "class_variance": "Variance between members",
    "predictive_entropy": "Total uncertainty (predictive entropy)",
    "expected_entropy": "Data uncertainty (expected entropy)",
    "mutual_information": "Knowledge uncertainty (mutual information)",
    "negative_max_logit": "Negative largest logit",
    "energy": "Energy",
    "mahalanobis": "Mahalanobis distance",
    "nearest": "Distance to the nearest neighbours",
}
# Of one network the first two are nothing, and the third is its predictive entropy again.
OF_MEMBERS = frozenset({"class_variance", "mutual_information", "expected_entropy"})
METRICS = {
    "accuracy": ("Accuracy", "share of rows whose predicted class is right; higher is better"),
    "nll": ("Negative log-likelihood", "surprise at the true outcome; lower is better"),
    "brier": ("Brier score", "squared error of the probabilities; lower is better"),
    "ece": ("Calibration error (ECE)", "average gap between confidence and accuracy"),
    "adaptive_ece": ("Calibration error (equal bins)", "the same gap, bins of equal size"),
    "rmse": ("Root mean squared error", "typical size of an error; lower is better"),
    "mae": ("Mean absolute error", "average size of an error; lower is better"),
    "coverage": ("Coverage", "share of outcomes inside of the predicted interval"),
}
SHARES = frozenset({"accuracy", "ece", "adaptive_ece", "coverage"})


def percent(value: float) -> str:
    """Write a share; never rounds to 0% or 100% what is neither.

    >>> percent(1.0), percent(0.99997), percent(0.1234), percent(1e-9)
    ('100%', '>99.99%', '12.3%', '<0.01%')
    """
    if not math.isfinite(value):
        return UNKNOWN
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    if 0 < value < 1e-4:
        return "<0.01%"
    if 0.9999 < value < 1:
        return ">99.99%"
    digits = 2 if value < 0.01 or 0.99 < value < 1 else 1
    text = f"{100 * value:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"


def number(value: float) -> str:
    """Write a number to three figures.

    >>> number(1234567.0), number(0.12345), number(-3e-7), number(float("inf"))
    ('1,230,000', '0.123', '−3e−7', '∞')
    """
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    rounded = float(f"{value:.3g}")
    # The very largest would round to infinity.
    value = rounded if math.isfinite(rounded) else value
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e9 or size < 1e-4:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def far_end(seen_to: float | None) -> str:
    """Where rays end: at infinity, or where a model that can only be evaluated was last asked.

    >>> far_end(None), far_end(1e6)
    ('at infinity', 'at the last look, 1,000,000 sd out')
    """
    return "at infinity" if seen_to is None else f"at the last look, {seen_to:,.0f} sd out"


def lasting(seen_to: float | None) -> str:
    """What it means that a confidence is there to stay.

    >>> lasting(None), lasting(1e6)
    ('99.9% sure for good', '99.9% sure at every look')
    """
    return "99.9% sure for good" if seen_to is None else "99.9% sure at every look"


def distance(value: float, unit: str = "", *, bound: bool = False, seen: bool = False) -> str:
    """Write a distance; infinity means never, or not seen. A bound is at most that.

    >>> distance(12.5, "mmol/L"), distance(float("inf")), distance(84.0, bound=True)
    ('12.5 mmol/L', 'never', 'at most 84')
    """
    if value == math.inf:
        return NOT_SEEN if seen else NEVER
    if not math.isfinite(value):
        return UNKNOWN
    return f"{'at most ' if bound and value > 0 else ''}{number(value)} {unit}".rstrip()


def reached(value: float, unit: str = "", *, bound: bool = False, seen: bool = False) -> str:
    """Write a value from which on something holds; infinity means never, or not seen.

    >>> reached(-3.0, "years"), reached(float("-inf")), reached(612.0, bound=True)
    ('−3 years', 'never', '612 at the latest')
    """
    if math.isinf(value):
        return NOT_SEEN if seen else NEVER
    if math.isnan(value):
        return UNKNOWN
    return f"{number(value)} {unit}".rstrip() + (" at the latest" if bound else "")


def unnatural(value: float, low: float, high: float) -> str:
    """Say so if a value has a sign that no value in the data has.

    >>> unnatural(-3.0, 18.0, 90.0), unnatural(-3.0, -1.0, 90.0), unnatural(float("-inf"), 0.0, 1.0)
    ('never negative in the data', '', '')
    """
    if not math.isfinite(value):
        return ""
    if value < 0 <= low:
        return "never negative in the data"
    return "never positive in the data" if value > 0 >= high else ""


def beyond(value: float, *, bound: bool = False) -> str:
    """Say where a point lies, given in standard deviations beyond the training range.

    >>> beyond(3.21), beyond(-0.5), beyond(float("inf")), beyond(3.21, bound=True)
    ('3.21 sd beyond', 'inside the data', '', 'at most 3.21 sd beyond')
    """
    if not math.isfinite(value):
        return ""
    if value <= 0:
        return "inside the data"
    return f"{'at most ' if bound else ''}{number(value)} sd beyond"


def share(value: float | Estimate) -> str:
    """Write a share: exact, or with the interval of its estimate.

    >>> share(0.25)
    '25%'
    >>> share(Estimate(0.25, 0.2, 0.3, 0.95, "Clopper-Pearson"))
    '25% (20% to 30%)'
    """
    if isinstance(value, Estimate):
        return f"{percent(value.value)} ({percent(value.low)} to {percent(value.high)})"
    return percent(value)


def measured(name: str, value: Estimate) -> tuple[str, str]:
    """A number of the model's health, and its interval."""
    write = percent if name in SHARES else number
    return write(value.value), f"{write(value.low)} to {write(value.high)}"


def quantity(value: float, name: str) -> str:
    """A number whose name says whether it is a share.

    >>> quantity(0.5, "blind, random"), quantity(0.5, "nll")
    ('50%', '0.5')
    """
    known = (*SHARES, "blind", "share", "confidence", "mmc", "certain")
    is_share = 0 <= value <= 1 and any(word in name for word in known)
    return percent(value) if is_share else number(value)


def is_telling(score: str, instances: int) -> bool:
    """Whether a score says something of its own about this many networks.

    >>> is_telling("mutual_information", 1), is_telling("mutual_information", 5)
    (False, True)
    """
    return instances > 1 or score not in OF_MEMBERS


def score_title(name: str) -> str:
    """The plain name of a score.

    >>> score_title("energy"), score_title("nearest_penultimate")
    ('Energy', 'Distance to the nearest neighbours (penultimate)')
    """
    if name in SCORES:
        return SCORES[name]
    for known in ("mahalanobis", "nearest"):
        if name.startswith(known):
            rest = name[len(known) :].strip(" _-()").replace("_", " ")
            return f"{SCORES[known]} ({rest})"
    return name.replace("_", " ")


def metric_title(name: str) -> str:
    """The plain name of a number of the model's health."""
    plain = name.replace("_", " ")
    return METRICS[name][0] if name in METRICS else plain[:1].upper() + plain[1:]


def metric_meaning(name: str) -> str:
    """What a number of the model's health means, if it is a known one."""
    return METRICS[name][1] if name in METRICS else ""


def shorten(name: str, limit: int = 160) -> str:
    """Cut a very long name; its beginning is kept.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return name if len(name) <= limit else name[: limit - 1] + "…"


def visible(name: str) -> str:
    r"""Make control characters visible, so that a name can neither hide nor break anything.

    >>> visible("a\x1b[2Jb"), visible("")
    ('a␛[2Jb', '(no name)')
    """
    # What can be printed, as most names can, has nothing of the kind in it.
    shown = name if name.isprintable() else "".join(map(_visible, name))
    return shown or "(no name)"


def harmless(name: str, limit: int = 60) -> str:
    """A name that can neither move the cursor nor turn the text around."""
    kept = "".join("\N{REPLACEMENT CHARACTER}" if each in TURNING else each for each in name)
    return shorten(visible(kept), limit)


# Letters that change the direction in which a terminal writes.
TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _visible(letter: str) -> str:
    code = ord(letter)
    if code < 0x20:
        return chr(0x2400 + code)
    hidden = 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0x2028, 0x2029)
    return "\N{REPLACEMENT CHARACTER}" if hidden else letter


def plural(count: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun.

    >>> plural(1, "ray"), plural(1200, "ray")
    ('1 ray', '1,200 rays')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Write several names in a sentence; the first ones if there are many.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdefg"))
    ('a', 'a, b and c', 'a, b, c, d and 3 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
