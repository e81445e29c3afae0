"""Checks of the project: `nox` runs them all, `nox --list` names them.

Every test session installs the built wheel, never the source tree. One table, `FRAMEWORKS`, says which
framework versions are tested; the sessions of an adapter come from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
TEST = nox.project.dependency_groups(PROJECT, "test")
PEERS = nox.project.dependency_groups(PROJECT, "peers")
LINT = nox.project.dependency_groups(PROJECT, "lint")
TYPES = nox.project.dependency_groups(PROJECT, "types")
DISTRIBUTION = PROJECT["project"]["name"]

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = True


# ---------------------------------------------------------------------------
# What is tested


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One row: what an adapter is tested with.

    Attributes:
        versions: The floor of the extra, one in the middle, the newest.
        requirements: What to install, with `{v}` for the version.
        peers: What only the adapter's own tests need beside that: the framework's model clients and runtimes.
        has_tokenizers: Whether these requirements bring the files that tiktoken needs offline.
    """

    versions: tuple[str, ...]
    requirements: tuple[str, ...]
    has_tokenizers: bool
    peers: tuple[str, ...] = ()

    def at(self, version: str) -> list[str]:
        """The requirements for one version."""
        return [requirement.format(v=version) for requirement in self.requirements]

    def peers_at(self, version: str) -> list[str]:
        """The further requirements of the adapter's tests."""
        return [requirement.format(v=version) for requirement in self.peers]

    @property
    def newest(self) -> str:
        """The version that gets the full number of examples and every Python."""
        return self.versions[-1]


FRAMEWORKS = {
    "autogen": Framework(
        versions=("0.6.2", "0.6.4", "0.7.2", "0.7.5"),
        # autogen-ext resolves mcp 2 and then fails to import with it.
        requirements=("autogen-agentchat=={v}", "autogen-core=={v}", "autogen-ext=={v}", "mcp<2"),
        has_tokenizers=False,
        # The Azure client needs aiohttp and does not ask for it.
        peers=("autogen-ext[anthropic,azure,grpc,mcp,ollama,openai]=={v}", "aiohttp>=3.11"),
    ),
    "openhands": Framework(
        versions=("1.50.1", "1.53.0", "1.57.0", "1.58.2"),
        requirements=("openhands-sdk=={v}",),
        has_tokenizers=True,
    ),
}
BOTH_NEWEST = [requirement for row in FRAMEWORKS.values() for requirement in row.at(row.newest)]

# Examples for each property test: all of them on the newest versions, fewer elsewhere.
FULL, SHORT = 1000, 100


# ---------------------------------------------------------------------------
# Which Pythons


@cache
def running_python(minor: int) -> str | None:
    """Path of a Python 3.`minor` that really runs, or None.

    A version manager puts a shim for every version it ever had on PATH; some of them do not run here.
    """
    name = f"python3.{minor}"
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders += [version / "bin" for version in sorted(pyenv.glob(f"3.{minor}.*"), reverse=True)]
    probe = f"import sys; assert sys.version_info[:2] == (3, {minor}); print(sys.executable)"
    for folder in folders:
        program = shutil.which(name, path=str(folder))
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, "-c", probe], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return done.stdout.strip()
    return None


# None is the Python that runs nox. Without any 3.12, nox names the missing interpreter.
PY312 = None if sys.version_info[:2] == (3, 12) else running_python(12) or "3.12"
PY313 = running_python(13)
if PY313 is None:
    print("nox: no python3.13 runs here, so its sessions are left out", file=sys.stderr)


# ---------------------------------------------------------------------------
# Steps


def dist(session: nox.Session) -> Path:
    """The folder that the `build` session fills anew in every run."""
    return session.cache_dir.resolve() / "dist"


def built(session: nox.Session, pattern: str) -> Path:
    """The one built file that matches."""
    found = list(dist(session).glob(pattern))
    if len(found) != 1:
        session.error(f"expected one {pattern} from the build session, found {len(found)}")
    return found[0]


def install(session: nox.Session, *requirements: str) -> None:
    """Install requirements, with their bytecode: it halves the frameworks' import time."""
    session.install(*requirements, env={"UV_COMPILE_BYTECODE": "1"})


def install_wheel(session: nox.Session, *requirements: str, extras: str = "", has_tokenizers: bool = True) -> None:
    """Install the built wheel beside other requirements, replacing the one of an earlier run."""
    wheel = built(session, "*.whl")
    ours = f"{DISTRIBUTION}[{extras}] @ {wheel.as_uri()}" if extras else f"{DISTRIBUTION} @ {wheel.as_uri()}"
    if session.venv_backend == "uv":
        install(session, f"--reinstall-package={DISTRIBUTION}", ours, *requirements)
    else:
        install(session, ours, *requirements)
        install(session, "--force-reinstall", "--no-deps", str(wheel))
    if not has_tokenizers:
        # litellm ships tiktoken's files. Nothing imports it here, and its dependencies are not needed.
        install(session, "--no-deps", "litellm>=1.100,<2")


def environment(session: nox.Session) -> dict[str, str | None]:
    """Variables for everything that runs against the wheel."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(str(session.run("python", "-c", code, silent=True, log=False)).strip())
    env: dict[str, str | None] = {
        "CARRIAGE_DIST": str(dist(session)),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONPATH": None,
        "PYTHONSAFEPATH": "1",
        "TIKTOKEN_CACHE_DIR": str(site / "litellm" / "litellm_core_utils" / "tokenizers"),
    }
    data = ROOT.parent / "shared" / "data"
    if "CARRIAGE_DATA" not in os.environ and data.is_dir():
        env["CARRIAGE_DATA"] = str(data)
    return env


def run_tests(session: nox.Session, *folders: str, examples: int) -> None:
    """Run the packaging tests, then these folders of `integration_tests`, against the installed wheel."""
    env = environment(session) | {"CARRIAGE_EXAMPLES": str(examples)}
    if session.posargs:
        session.run("pytest", *session.posargs, env=env)
        return
    # In a process of their own: an SDK may put the working folder on the path, which they look at.
    session.run("pytest", "integration_tests/packaging", env=env)
    paths = [f"integration_tests/{folder}" for folder in folders]
    if paths:
        # Two workers: a test is never split, so the long property tests run beside the rest.
        session.run("pytest", "-n", "2", "--dist", "worksteal", *paths, env=env)


def scripts(session: nox.Session, folder: str) -> list[Path]:
    """The programs of a folder: the named ones or all. A folder without any is an error."""
    found = [Path(path) for path in session.posargs] or sorted((ROOT / folder).glob("[!_]*.py"))
    if not found:
        session.error(f"no programs in {folder}/")
    return found


# ---------------------------------------------------------------------------
# Sessions


@nox.session(python=PY312)
def build(session: nox.Session) -> None:
    """Build the sdist, and the wheel from it, for every other session of this run."""
    install(session, "build", *PROJECT["build-system"]["requires"])
    shutil.rmtree(dist(session), ignore_errors=True)
    session.run("python", "-m", "build", "--no-isolation", "--outdir", str(dist(session)), ".")


@nox.session(python=PY312)
def lint(session: nox.Session) -> None:
    """Style, format and the direction of imports."""
    install(session, *LINT)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", env={"PYTHONPATH": os.pathsep.join((".", "adapters"))})


@nox.session(python=PY312)
def types(session: nox.Session) -> None:
    """Types of all packages with both frameworks; the core a second time with another checker."""
    project = PROJECT["project"]
    install(session, *TYPES, *project["dependencies"], *project["optional-dependencies"]["lab"], *BOTH_NEWEST)
    # carriage_core.testing is written with the test libraries.
    install(session, *TEST, *PEERS)
    session.run("mypy")
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"))


def add_core(python: str | None, suffix: str = "") -> None:
    """Declare the session of the core on one Python."""

    @nox.session(python=python, name=f"core{suffix}", requires=["build"])
    def core(session: nox.Session) -> None:
        """The core, with no framework installed."""
        install_wheel(session, *TEST, *PEERS, has_tokenizers=False)
        run_tests(session, "core", examples=SHORT if suffix else FULL)


def add_adapter(framework: str, version: str, python: str | None, suffix: str = "") -> None:
    """Declare the session of one adapter on one version of its framework."""
    row = FRAMEWORKS[framework]
    full = version == row.newest and not suffix

    @nox.session(python=python, name=f"{framework}-{version}{suffix}", tags=[framework], requires=["build"])
    def adapter(session: nox.Session) -> None:
        """An adapter, on one version of its framework."""
        requirements = [*row.at(version), *row.peers_at(version), *TEST]
        install_wheel(session, *requirements, extras=framework, has_tokenizers=row.has_tokenizers)
        run_tests(session, framework, examples=FULL if full else SHORT)


add_core(PY312)
for framework, row in FRAMEWORKS.items():
    for version in row.versions:
        add_adapter(framework, version, PY312)
if PY313 is not None:
    add_core(PY313, "-py3.13")
    for framework, row in FRAMEWORKS.items():
        add_adapter(framework, row.newest, PY313, "-py3.13")


@nox.session(python=PY312, name="autogen-peers", requires=["build"], default=False)
def autogen_peers(session: nox.Session) -> None:
    """The AutoGen drop-ins over all recorded runs, the conformance kit, and autogen-core's own context tests."""
    row = FRAMEWORKS["autogen"]
    requirements = [*row.at(row.newest), *row.peers_at(row.newest), *TEST, "compaction-conformance-kit==0.8.0"]
    install_wheel(session, *requirements, extras="autogen,lab", has_tokenizers=row.has_tokenizers)
    env = environment(session)
    recorded = "integration_tests/autogen/test_recorded_transcripts.py"
    session.run("pytest", "-s", recorded, "integration_tests/autogen_peers", env=env | {"CARRIAGE_SWEEP": "1"})
    # Its tests are in the source distribution only, which needs a build backend to be read.
    install(session, "pip")
    folder = Path(session.create_tmp())
    source = f"autogen-core=={row.newest}"
    session.run("python", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder), source)
    shutil.unpack_archive(str(next(folder.glob("autogen_core-*.tar.gz"))), folder)
    tests = folder / f"autogen_core-{row.newest}" / "tests" / "test_model_context.py"
    session.run("python", "integration_tests/autogen_peers/run_upstream.py", str(tests), env=env)


@nox.session(python=PY312, requires=["build"])
def lab(session: nox.Session) -> None:
    """The lab and the command, with both frameworks."""
    install_wheel(session, *BOTH_NEWEST, *TEST, extras="all")
    run_tests(session, "lab", "cli", examples=SHORT)


@nox.session(python=PY312, requires=["build"])
def examples(session: nox.Session) -> None:
    """Every example, or those named after `--`, with both frameworks."""
    install_wheel(session, *BOTH_NEWEST, extras="all")
    env = environment(session)
    for program in scripts(session, "examples"):
        session.run("python", str(program), env=env)


@nox.session(python=PY312, requires=["build"], reuse_venv=False)
def package(session: nox.Session) -> None:
    """What a user gets: the contents of the wheel, a clean install, the command."""
    install_wheel(session, *TEST)
    run_tests(session, examples=SHORT)
    install_wheel(session, extras="lab")
    session.run("carriage", "--help", env=environment(session))


@nox.session(python=PY312, name="openhands-server", requires=["build"], default=False)
def openhands_server(session: nox.Session) -> None:
    """The real OpenHands agent-server on loopback, which takes a quarter of a minute to start for each test."""
    row = FRAMEWORKS["openhands"]
    server = f"openhands-agent-server=={row.newest}"
    tools = f"openhands-tools=={row.newest}"  # the server imports them
    install_wheel(session, *row.at(row.newest), server, tools, *TEST, extras="openhands,shell")
    session.run("pytest", "integration_tests/openhands_server", *session.posargs, env=environment(session))


@nox.session(python=PY312, name="openhands-replay", requires=["build"], default=False)
def openhands_replay(session: nox.Session) -> None:
    """Every recorded OpenHands run, step by step through every condenser; the default sessions take two."""
    row = FRAMEWORKS["openhands"]
    install_wheel(session, *row.at(row.newest), *TEST, extras="openhands")
    env = environment(session) | {"CARRIAGE_ALL_RUNS": "1"}
    session.run("pytest", "-n", "2", "integration_tests/openhands/test_recorded_runs.py", *session.posargs, env=env)


@nox.session(python=PY312, requires=["build"], default=False)
def bench(session: nox.Session) -> None:
    """Every benchmark, or those named after `--`, with both frameworks."""
    install_wheel(session, *BOTH_NEWEST, *TEST, *PEERS, extras="all")
    env = environment(session)
    for program in scripts(session, "benchmarks"):
        session.run("python", str(program), env=env)
