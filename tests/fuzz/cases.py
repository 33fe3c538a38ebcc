"""One case: change a file, read it, say what went wrong."""

import random
import sys
import traceback
import warnings

import torch._dynamo  # noqa: F401 - makes a folder for itself when it is first imported

from farfield.errors import FarfieldError
from fuzz.formats import FORMATS
from fuzz.watch import Hang, Watch


class Reader:
    """The cases of one format, in a folder of their own."""

    def __init__(self, name, folder, watch=None):
        self.name, self.format = name, FORMATS[name]
        self.path = folder / f"file{self.format.suffix}"
        self.seeds = self.format.seeds()
        self.watch = watch or Watch(folder)
        for seed in self.seeds:
            self._check(seed)

    def _check(self, data):
        """What has not been changed can be read by one of the readers."""
        self.path.write_bytes(data)
        refusals = []
        for read in self.format.readers:
            try:
                read(self.path)
            except FarfieldError as error:
                refusals.append(error)
        if len(refusals) == len(self.format.readers):
            raise refusals[0]

    def case(self, seed, number):
        """The file and the reader of a case: functions of the seed and its number alone."""
        source = random.Random(f"{self.name} {seed} {number}")
        first = source.random() < 0.9
        read = self.format.readers[0] if first else source.choice(self.format.readers)
        return self.format.change(source.choice(self.seeds), source), read

    def run(self, seed, number):
        """Read one case; a list of what went wrong, and whether the file was read."""
        data, reader = self.case(seed, number)
        self.path.write_bytes(data)
        read, wrong = False, []
        try:
            with self.watch.watching(), warnings.catch_warnings():
                # Python warns of odd literals, numpy of numbers that overflow.
                warnings.simplefilter("ignore")
                reader(self.path)
            read = True
        except FarfieldError as error:
            if not str(error).strip():
                wrong.append(f"an empty message of {type(error).__name__}")
        except Hang as hang:
            wrong.append(f"too long {hang}")
        except BaseException:  # whatever it is, it is what we look for
            wrong.append(traceback.format_exc(limit=-4))
            if isinstance(sys.exc_info()[1], KeyboardInterrupt):
                raise
        return read, [*wrong, *self.watch.found]
