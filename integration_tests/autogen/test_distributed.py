"""AutoGen's distributed runtime: a host and two worker processes, one policy file, an update that reaches both."""

import asyncio
import importlib.util
import json
import os
import socket
import sys
from pathlib import Path

import pytest
from autogen_core import AgentId
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost

HERE = Path(__file__).parent

POLICIES = """
carriage: 1
tools:
  pay:
    action: pay
    attributes: {amount: {argument: amount, type: number}}
policies:
  - id: pay-little
    issuer: {kind: organization, name: finance}
    version: VERSION
    action: pay
    where: {attr: action.amount, gt: LIMIT}
    effect: deny
    text: Never pay more than LIMIT dollars.
"""

pytestmark = [
    pytest.mark.slow,
    # AutoGen's stubs were made for another minor version, and its host leaves a loop's task behind when it stops.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def worker_module():
    spec = importlib.util.spec_from_file_location("grpc_worker", HERE / "grpc_worker.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.asyncio
async def test_two_workers_carry_one_file_and_its_update(worker_module, tmp_path):
    """Each process judges and carries on its own; after the file rises in version, both refuse what they allowed."""
    path = tmp_path / "policies.yaml"
    path.write_text(POLICIES.replace("VERSION", "1").replace("LIMIT", "5"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    host = GrpcWorkerAgentRuntimeHost(address)
    host.start()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    workers = []
    runtime = GrpcWorkerAgentRuntime(address)
    runtime.add_message_serializer(worker_module.serializers())
    try:
        for name in ("one", "two"):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-W",
                "ignore",
                str(HERE / "grpc_worker.py"),
                address,
                name,
                str(path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
            )
            workers.append(process)
        for process in workers:
            assert (await asyncio.wait_for(process.stdout.readline(), 60)).strip() == b"ready"
        await runtime.start()

        async def send(name, message):
            answer = await asyncio.wait_for(runtime.send_message(message, AgentId(name, "default")), 60)
            return answer.content

        for name in ("one", "two"):
            first = json.loads(await send(name, worker_module.Ask(amount=4)))
            assert "Never pay more than 5 dollars." in first["head"]
            assert first["paid"] == [4]
            refused = json.loads(await send(name, worker_module.Ask(amount=9)))
            assert refused["paid"] == [4]
            assert "POLICY_DENIED" in refused["last"]

        path.write_text(POLICIES.replace("VERSION", "2").replace("LIMIT", "3"))
        digests = [await send(name, worker_module.Refresh(path=str(path))) for name in ("one", "two")]
        assert digests[0] == digests[1]
        for name in ("one", "two"):
            after = json.loads(await send(name, worker_module.Ask(amount=4)))
            assert "Never pay more than 3 dollars." in after["head"]
            assert "Never pay more than 5" not in after["head"]
            assert after["paid"] == [4]
    finally:
        for process in workers:
            process.stdin.close()
            await asyncio.wait_for(process.wait(), 30)
        await runtime.stop()
        await host.stop()
