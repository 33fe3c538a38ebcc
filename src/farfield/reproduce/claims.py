"""Who works on what: processes claim numbered pieces of work, and take over those of the dead.

Claims live in a small sqlite file, so that any number of processes on one machine, started
together or from several terminals, divide the work among them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from farfield.files import alive

# Seconds to wait for another process that is writing.
PATIENCE = 60.0
# Seconds after which a claim is void even if its process seems to live: its number may have been
# given to another one since.
LONGEST = 3600.0


class Claims:
    """Claims of processes on numbered pieces of work.

    Args:
        file: The sqlite file; made if need be.
        work: What the numbers belong to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     claims = Claims(Path(folder) / "claims.db", "search")
    ...     claims.take(0), claims.take(0), claims.take(1)
    (True, False, True)
    """

    def __init__(self, file: Path, work: str) -> None:
        self._file, self._work = file, work
        with closing(self._open()) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS claims "
                "(work TEXT, number INTEGER, process INTEGER, since REAL, "
                "PRIMARY KEY (work, number))"
            )

    def take(self, number: int) -> bool:
        """Claim a piece of work; False if a living process has it, this one included."""
        key = (self._work, number)
        with closing(self._open()) as database, database:
            fresh = database.execute(
                "INSERT OR IGNORE INTO claims VALUES (?, ?, ?, ?)",
                (*key, os.getpid(), time.time()),
            )
            if fresh.rowcount == 1:
                return True
            query = "SELECT process, since FROM claims WHERE work = ? AND number = ?"
            owner, since = database.execute(query, key).fetchone()
            if alive(owner) and time.time() - since < LONGEST:
                return False
            # Whoever changes the row first has it.
            taken = database.execute(
                "UPDATE claims SET process = ?, since = ? "
                "WHERE work = ? AND number = ? AND process = ? AND since = ?",
                (os.getpid(), time.time(), *key, owner, since),
            )
            return taken.rowcount == 1

    def release(self, number: int) -> None:
        """Give a piece of work back."""
        with closing(self._open()) as database, database:
            database.execute(
                "DELETE FROM claims WHERE work = ? AND number = ?", (self._work, number)
            )

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=PATIENCE)
