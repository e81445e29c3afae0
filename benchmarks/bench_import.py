"""What importing the core costs, against importing the libraries it stands on, each in a fresh interpreter.

Exits with 1 past `BAR` times, or if a framework is loaded.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIBRARIES = "from pydantic import BaseModel; import tiktoken, rfc8785; from ruamel.yaml import YAML"
CORE = "import carriage_core"
FRAMEWORKS = ("autogen_core", "autogen_agentchat", "openhands", "litellm", "typer", "rich")
ROUNDS = 5
BAR = 1.5


def seconds(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - start


def main() -> int:
    probe = f"{CORE}; import sys; print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout.strip()
    for program in (LIBRARIES, CORE):
        seconds(program)  # once, so that bytecode exists
    times = [(seconds(LIBRARIES), seconds(CORE)) for _ in range(ROUNDS)]
    libraries = statistics.median(one for one, _ in times)
    core = statistics.median(other for _, other in times)
    ratio = core / libraries
    print(f"import, median of {ROUNDS} fresh interpreters, in turn")
    print(f"libraries {libraries * 1000:7.0f} ms\ncore      {core * 1000:7.0f} ms\nratio     {ratio:7.2f}")
    print(f"frameworks loaded by the core: {loaded}")
    sound = ratio <= BAR and loaded == "[]"
    print(f"bar: at most {BAR} x and no framework; {'held' if sound else 'MISSED'}")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
