# Shared by the scripts beside it: where the project is, and how its tools get there.
# shellcheck shell=bash
# Sets: root, venv, pins. Leaves the working directory at the project's root.

unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
pins=$root/scripts/requirements-dev.txt
cd "$root"

# What the caller's shell sets for its own work must not reach ours. Where packages come
# from (PIP_INDEX_URL, PIP_FIND_LINKS, PIP_CERT ...) is the machine's business and stays.
# Bytecode is written: the tests start hundreds of interpreters.
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PYTHONWARNINGS PYTHONOPTIMIZE VIRTUAL_ENV
unset PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# need COMMAND PACKAGE: installs the system package when the command is missing.
need() {
  command -v "$1" >/dev/null && return
  command -v apt-get >/dev/null || die "$1 is missing; install it and run this again"
  local as=()
  [[ $(id -u) == 0 ]] || as=(sudo -n)
  printf 'installing %s, for %s\n' "$2" "$1"
  "${as[@]+"${as[@]}"}" apt-get update -qq &&
    "${as[@]+"${as[@]}"}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "$2" >/dev/null ||
    die "$1 is missing and apt-get could not install $2"
}

# The first Python that is new enough; PYTHON names another.
find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python3"
}

# fingerprint FILE-OR-DIRECTORY...: one hash of everything named.
fingerprint() {
  "$(find_python)" - "$@" <<'PY'
import hashlib, os, sys

digest = hashlib.sha256(sys.version.encode())
for name in sys.argv[1:]:
    found = [name] if os.path.isfile(name) else [
        os.path.join(top, file)
        for top, _, files in os.walk(name) if "__pycache__" not in top for file in files
    ]
    for path in sorted(found):
        with open(path, "rb") as stream:
            digest.update(b"%s\0%s\0" % (os.fsencode(path), stream.read()))
print(digest.hexdigest())
PY
}

# An environment that was moved, copied or outlived its Python does not answer from its own place.
venv_works() {
  "$1/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
    [[ $("$1/bin/pip" --version 2>/dev/null) == *" from $1/"* ]]
}

# make_venv DIRECTORY: an environment that works, made anew only when there is none.
make_venv() {
  venv_works "$1" && return
  "$(find_python)" -m venv --clear "$1" ||
    die "$1 could not be made; on Debian and Ubuntu, install python3-venv"
}

# exclusively COMMAND: two runs in one tree take turns at the same installation.
exclusively() {
  mkdir -p .cache
  (
    if command -v flock >/dev/null; then flock 9; fi
    "$@"
  ) 9>".cache/$1.lock"
}

# Retain, editable, with every tool at its pinned version.
python_tools() {
  local stamp
  stamp=$(fingerprint pyproject.toml "$pins" src/retain/__init__.py)
  venv_works "$venv" && [[ $(cat "$venv/stamp" 2>/dev/null) == "$stamp" ]] && return
  rm -f "$venv/stamp"
  make_venv "$venv"
  "$venv/bin/python" -m pip install --quiet --requirement "$pins"
  "$venv/bin/python" -m pip install --quiet --no-build-isolation --no-deps --editable .
  "$venv/bin/python" -m pip check
  printf '%s\n' "$stamp" >"$venv/stamp"
}

# The documentation's linter and the clients the tests drive, as package-lock.json pins them.
node_tools() {
  local stamp
  node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' ||
    die "Node.js 20 or newer is needed to check the documentation; found $(node --version)"
  stamp=$(fingerprint package.json package-lock.json)
  [[ $(cat node_modules/.stamp 2>/dev/null) == "$stamp" ]] && return
  npm ci --loglevel=error
  printf '%s\n' "$stamp" >node_modules/.stamp
}
