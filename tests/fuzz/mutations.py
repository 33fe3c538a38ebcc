"""Ways to change a file: its bytes, or its meaning with its form kept."""

import gzip
import io
import json
import struct
import warnings
import zipfile

NUMBERS = [0, 1, -1, 2, 3, 7, 255, 65535, 10**6, 2**31 - 1, 2**40, 2**62, 2**63, -(2**63), 10**30]
ODD = [
    *NUMBERS, None, True, False, 0.5, -1e308, float("inf"), float("nan"), "", "a", "x" * 5000,
    "\0", "../../../executed", "__class__", "os.system", "é\u2028", [], {}, [[]], [1, 2, 3],
    {"a": {}}, ["x"] * 100,
]  # fmt: skip


def change_bytes(data, random):
    """Set, insert, remove, repeat or cut some bytes."""
    out = bytearray(data)
    for _ in range(random.randint(1, 5)):
        # The first and the last bytes hold what everything else depends on.
        place = random.randint(0, random.choice([len(out), min(120, len(out))]))
        place = len(out) - place if random.random() < 0.3 else place
        kind = random.randrange(7)
        some = random.randbytes(random.randint(1, 8))
        if kind == 0:
            out[place : place + len(some)] = some
        elif kind == 1 and out:
            place = min(place, len(out) - 1)
            out[place] ^= 1 << random.randrange(8)
        elif kind == 2:
            out[place:place] = some
        elif kind == 3:
            del out[place : place + len(some)]
        elif kind == 4:
            out[place:place] = out[place : place + 64]
        elif kind == 5:
            number = random.choice(NUMBERS) % 2**64
            form = random.choice(["<I", ">I", "<Q", ">Q", "<H"])
            packed = struct.pack(form, number % 2 ** (8 * struct.calcsize(form)))
            out[place : place + len(packed)] = packed
        elif random.random() < 0.3:
            del out[place:]
    return bytes(out)


def change_tree(tree, random):
    """Replace, remove, rename or double something in nested lists and dictionaries."""
    for _ in range(random.randint(1, 3)):
        place, key = random.choice(list(_places(tree)) or [(None, None)])
        if place is None:
            return random.choice(ODD)
        kind = random.randrange(6)
        if kind == 0:
            place[key] = random.choice(ODD)
        elif kind == 1 and isinstance(place[key], int | float) and place[key] == place[key]:
            place[key] = random.choice([place[key] + 1, -place[key], place[key] * 2, *NUMBERS])
        elif kind == 2:
            del place[key]
        elif kind == 3 and isinstance(place, dict):
            place[random.choice([*place, "other", "__class__", ""])] = place.pop(key)
        elif kind == 4 and isinstance(place, list):
            place.insert(key, place[key])
        else:
            other, name = random.choice(list(_places(tree)))
            place[key] = json.loads(json.dumps(other[name], default=str))
    return tree


def _places(tree):
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    else:
        return
    for key, value in items:
        yield tree, key
        yield from _places(value)


def change_json(data, random):
    """Change the meaning of JSON."""
    return json.dumps(change_tree(json.loads(data), random)).encode()


def change_zip(change, random, data):
    """Change members of a zip file, whose checksums are made again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        infos = source.infolist()
        chosen = random.choice(infos)
        kind = random.randrange(8)
        with zipfile.ZipFile(out, "w") as sink, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are there twice
            for info in infos:
                content = source.read(info)
                name = info.filename
                if info is chosen and kind == 0:
                    continue
                if info is chosen and kind == 1:
                    name = random.choice([*source.namelist(), "other", f"{name}x", "../x"])
                elif info is chosen:
                    content = change(name, content, random)
                packing = info.compress_type if random.random() < 0.95 else zipfile.ZIP_DEFLATED
                sink.writestr(name, content, packing)
    return out.getvalue()


def change_safetensors(data, random):
    """Change the header of a safetensors file: our part of it, or its own."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    key = next(iter(header["__metadata__"]))
    if random.random() < 0.8:
        inner = change_tree(json.loads(header["__metadata__"][key]), random)
        header["__metadata__"][key] = json.dumps(inner)
    else:
        header = change_tree(header, random)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def inside_gzip(change):
    """Change what was compressed."""
    return lambda data, random: gzip.compress(change(gzip.decompress(data), random), 1, mtime=0)


def change_npy(data, random):
    """Change the description of an array: it is a Python literal."""
    length = int.from_bytes(data[8:10], "little")
    text = data[10 : 10 + length].decode("latin-1").rstrip()
    for _ in range(random.randint(1, 2)):
        old, new = random.choice(LITERALS), random.choice(LITERALS)
        text = text.replace(old, new, 1) if old in text else text
        place = random.randint(0, len(text))
        text = text[:place] + random.choice(LITERALS) + text[place + random.randint(0, 3) :]
    packed = text.encode("latin-1", "replace")[: 2**16 - 1]
    return data[:8] + len(packed).to_bytes(2, "little") + packed + data[10 + length :]


LITERALS = [
    "'<f8'", "'|O'", "'<U999999'", "'<U4'", "'|u1'", "'<c16'", "'|V8'", "'<M8[s]'", "(6, 3)",
    "(2, 4, 4)", "(1000000000000,)", "(-1, 3)", "(0,)", "()", "(2**60,)", "True", "False", "None",
    "{", "}", ",", "[", "(" * 90, "'descr'", "'shape'", "__import__('os')", "[('a', '<f8')]",
]  # fmt: skip


def any_of(*changes):
    """One of several kinds of change; where one goes too deep for Python itself, of bytes."""

    def change(data, random):
        try:
            return random.choice(changes)(data, random)
        except (RecursionError, ValueError):
            return change_bytes(data, random)

    return change
