"""``carriage audit``: preserved is said only of what is, and a file that cannot be read is never a finding."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from carriage_core import Tier, load_policy_file, render
from carriage_core.audit import CarriageAudit
from carriage_core.audit_findings import Carriage
from carriage_lab.trace import TraceFormatError
from carriage_lab.transcripts import read_transcripts

POLICIES = """
carriage: 1
default: allow
tools:
  refund_order:
    action: refund
    object: {type: order, id: order_id, amount: amount}
policies:
  - id: refund-cap
    issuer: {kind: organization, name: finance}
    action: refund
    object: {type: order}
    where: {attr: object.amount, gt: 500}
    effect: deny
    text: Do not refund more than 500 dollars on an order.
"""
TEXT = "Do not refund more than 500 dollars on an order."
CARRIED = {"role": "system", "content": TEXT, "provenance": "trusted policy"}
ASKED = {"role": "user", "content": "Refund it.", "provenance": "final request"}


@pytest.fixture
def policies(tmp_path) -> Path:
    path = tmp_path / "policies.yaml"
    path.write_text(POLICIES, encoding="utf-8")
    return path


@pytest.fixture
def audit(tmp_path, policies):
    def run(text: str, *more: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "transcript.json"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "carriage_cli", "audit", str(path), "--policies", str(policies), *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


def lines(*messages) -> str:
    return "\n".join(json.dumps(each) for each in messages) + "\n"


def autogen(*texts: str) -> str:
    messages = [{"type": "SystemMessage", "content": text, "provenance": "trusted policy"} for text in texts]
    return json.dumps({"agent_states": {"desk": {"agent_state": {"llm_context": {"messages": messages}}}}})


def openhands(*texts: str) -> str:
    return lines(
        *(
            {
                "kind": "SystemPromptEvent",
                "id": f"e{number}",
                "source": "agent",
                "timestamp": "2026-01-01T00:00:00",
                "system_prompt": text,
                "tools": [],
                "provenance": "trusted policy",
            }
            for number, text in enumerate(texts)
        )
    )


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([CARRIED, ASKED]),
        json.dumps({"messages": [CARRIED, ASKED]}),
        lines(CARRIED, ASKED),
        autogen(TEXT),
        openhands(TEXT),
    ],
    ids=["list", "object", "lines", "autogen", "openhands"],
)
def test_a_carried_policy_exits_with_0_in_every_shape(audit, text):
    done = audit(text)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "refund-cap  preserved" in done.stdout


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([ASKED], "absent"),
        ([{"role": "system", "content": TEXT}], "preserved-if-trusted"),
        ([{**CARRIED, "content": f"Once: {TEXT}"}], "unverifiable"),
        ([{**CARRIED, "provenance": "untrusted document"}], "absent"),
    ],
)
def test_anything_less_exits_with_3(audit, messages, kind):
    done = audit(json.dumps(messages), "--json")
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert report["transcripts"][0]["policies"][0]["carriage"] == kind
    assert (report["set"], report["preserved"]) == (kind, False)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (lines(CARRIED, ASKED)[:-20], 2, "not JSON"),
        ("", 1, "the file is empty"),
        (json.dumps({"hello": "world"}), 1, "no messages and no llm_context"),
        ("3", 1, "where messages belong"),
        (lines(CARRIED, {"text": "x"}), 2, "without a role"),
        (lines(CARRIED, {**ASKED, "provenance": "the pope"}), 2, "provenance is not one of the known kinds"),
        (lines(CARRIED, {"role": "user", "content": 4}), 2, "content is neither text, parts nor null"),
        (openhands(TEXT) + lines({"kind": "Condensation", "id": "c", "source": "agent"}), 2, ""),
        ('[{"role": "user", "content": NaN}]', 1, "not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_exits_with_2_and_names_the_line(audit, tmp_path, text, line, problem):
    done = audit(text)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'transcript.json'}:{line}:" in done.stderr
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_and_policies_that_do_not_load_exit_with_2(audit, policies, tmp_path):
    command = [sys.executable, "-m", "carriage_cli", "audit", str(tmp_path / "no.json"), "--policies", str(policies)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    policies.write_text("carriage: 1\n", encoding="utf-8")
    assert audit(json.dumps([CARRIED])).returncode == 2


# -- recorded runs -----------------------------------------------------------------------------------

DATA = Path(os.environ.get("CARRIAGE_DATA", ""))
recorded = pytest.mark.skipif(
    "CARRIAGE_DATA" not in os.environ or not DATA.is_dir(), reason="CARRIAGE_DATA names no folder of recorded runs"
)


@recorded
@pytest.mark.parametrize("name", ["openhands/native", "openhands/sdk158", "tau"])
def test_recorded_runs_carry_our_policies_only_after_we_put_them_there(policies, name):
    """Real transcripts hold none of our rules; with the capsule in front they hold them, and nothing else changes."""
    registry = load_policy_file(policies)
    auditor = CarriageAudit.of(registry)
    capsule = render(registry.policies, registry, Tier.COMPACT).text
    file = min((DATA / name).glob("*.jsonl.gz"), key=lambda path: path.stat().st_size)
    transcripts = read_transcripts(file)
    assert transcripts
    for transcript in transcripts[:20]:
        bare = auditor.read(transcript.messages)
        assert bare.carriage in {Carriage.ABSENT, Carriage.UNVERIFIABLE}
        placed = {"role": "system", "content": capsule, "provenance": "trusted policy"}
        assert auditor.read([placed, *transcript.messages]).preserved
        unknown = {"role": "system", "content": capsule}
        assert auditor.read([unknown, *transcript.messages]).carriage is Carriage.PRESERVED_IF_TRUSTED
        wrapped = {"role": "tool", "content": capsule}
        assert auditor.read([wrapped, *transcript.messages]).carriage is bare.carriage


@recorded
def test_a_recorded_run_cut_short_is_refused_with_its_line(tmp_path):
    file = min((DATA / "openhands/native").glob("*.jsonl.gz"), key=lambda path: path.stat().st_size)
    text = gzip.decompress(file.read_bytes())[:-100]
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(text)
    with pytest.raises(TraceFormatError) as raised:
        read_transcripts(cut)
    assert raised.value.line == text.count(b"\n") + 1
