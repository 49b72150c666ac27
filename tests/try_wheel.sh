#!/bin/sh
# Install a wheel into an empty environment, and use it in an empty folder, so that whatever the wheel lacks is missed: the demo, and all commands of the README.
# usage: tests/try_wheel.sh PYTHON TORCH WHEEL
# TORCH is a version, which is installed as a build for CPUs (with CUDA=1 also as one with CUDA, of some 6 GB), or the folder of an environment that has torch.
# It ends with 3 if this torch cannot be had.
set -eu
python=$1 torch=$2 wheel=$(realpath "$3") tree=$(realpath "$(dirname "$0")/..")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset PYTHONPATH

echo "1/4  installing $(basename "$wheel") with $torch"
"$python" -m venv "$place/env"
own="$place/env/bin/python"
quietly() { "$own" -m pip --disable-pip-version-check install --quiet --retries 1 "$@"; }
if [ -d "$torch" ]; then  # what is installed there is found from here
  "$torch/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))" >"$("$own" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/given.pth"
elif ! quietly "torch==$torch+cpu" 2>/dev/null; then
  [ "${CUDA-}" = 1 ] || [ "$(uname)" = Darwin ] || exit 3  # the usual builds for macOS have no CUDA
  quietly "torch==$torch" || exit 3
fi
"$own" -W ignore -c "import torch" || exit 3
quietly "$wheel[train,chem,plot]"
PATH="$place/env/bin:$PATH"
export REIGN_CACHE="$place/cache" OMP_NUM_THREADS=1
mkdir "$place/work"
cd "$place/work"

echo "2/4  what the wheel holds, with $("$own" -c "import platform, torch; print('Python', platform.python_version(), 'and torch', torch.__version__)")"
reign --version
python -c "import pathlib, reign; folder = pathlib.Path(reign.__file__).parent; assert '$place' in str(folder), folder
assert (folder / 'py.typed').is_file() and len(list((folder / 'experiments/recipes').glob('*.yaml'))) > 5
assert all((folder / 'explore/page' / name).is_file() for name in ('index.html', 'explore.js', 'explore.css'))"
reign recipes zinc >/dev/null
reign models >/dev/null

echo "3/4  the training of the demo, for one epoch"
python -c "import runpy; demo = runpy.run_path('$tree/examples/demo.py'); demo['SETTINGS']['train']['epochs'] = 1; demo['main']()"

echo "4/4  the README: seconds and commands"
python "$tree/tests/readme.py" "$tree/README.md"
