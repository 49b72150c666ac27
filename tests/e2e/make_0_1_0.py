"""Make the runs, the zip, the checkpoint and the saved model of version 0.1.0, which every later version must read.

``python tests/e2e/make_0_1_0.py`` writes ``tests/e2e/data/runs_0_1_0.tar.xz`` with this tree, when it is the release; ``test_old_run.py`` says what is in it, and
reads it. After the release the file stays as it is.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]

if __name__ == "__main__":
    from test_old_run import make

    import reign

    if reign.__version__ != "0.1.0":
        raise SystemExit(f"reign: this tree is version {reign.__version__}, expected 0.1.0: the files of a release are made once.")
    if "v0.1.0" in subprocess.run(["git", "tag"], cwd=HERE, capture_output=True, text=True).stdout.split():
        raise SystemExit("reign: 0.1.0 was released; its files stay as they are.")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make(HERE / "data" / "runs_0_1_0.tar.xz")
        os.chdir(HERE)  # so that the folder can be removed on every system
