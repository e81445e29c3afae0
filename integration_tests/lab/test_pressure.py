"""What a budget audit must not miscount, guess or hide."""

import json
import re

import pytest

from carriage_lab.counters import counter_named, remembering
from carriage_lab.pressure import Tokens, percentile
from carriage_lab.pressure_run import Audit, measure_all
from carriage_lab.sources import find_files
from integration_tests.lab.conftest import action, event, observation, openhands_log, tau_run, text

WORDS = Tokens(name="whitespace", count=remembering(counter_named("whitespace")))


def audited(*files, counters=(WORDS,), **options):
    audit = Audit(counters=counters, **{"window": None, "reserved": 4096} | options)
    measure_all(audit, files)
    return audit


@pytest.fixture
def shop(lines):
    """A tau file with its system prompt (3 words) and tool schemas (2 words) beside it."""

    def write(run, name="shop.jsonl.gz"):
        file = lines(name, [run | {"system_prompt_id": "shop", "tools_id": "shop", "dataset": "tau2-bench"}])
        for folder, content in (("system_prompts/shop.txt", "Never ship twice"), ("tools/shop.json", '["look", "up"]')):
            path = file.parent / folder
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        return file

    return write


def test_rho_is_counted_by_the_formula_of_the_paper(shop):
    """Greeting 7 words, question 4, then a call pair (2 x `look_up {"key": "..."}` = 6) and two results of 3."""
    found = audited(shop(tau_run(rounds=1)), window=1000, reserved=100).found
    assert [(each.fixed, each.request, each.candidate) for each in found] == [(5, 4, 7), (5, 4, 7 + 6 + 6)]
    assert [each.effective for each in found] == [1000 - 100 - 5 - 4] * 2
    assert found[1].rho == 19 / 891


def test_what_the_agent_never_saw_fills_no_budget(shop):
    """The simulated user's own phone is not in the agent's context."""
    run = tau_run(rounds=1)
    seen = [each.candidate for each in audited(shop(run)).found]
    run["messages"].insert(2, run["messages"][3] | {"visible_to_agent": False, "content": "many words " * 50})
    assert [each.candidate for each in audited(shop(run, "b.jsonl")).found] == seen


def test_reported_tokens_are_used_where_recorded_and_named(shop):
    """From the first report on, the candidate grows as the provider's reports do."""
    run = tau_run(rounds=2)
    asked = [each for each in run["messages"] if each["role"] == "assistant" and not each.get("scripted")]
    asked[0]["usage"] = {"prompt_tokens": 500}
    asked[2]["usage"] = {"prompt_tokens": 650}
    found = [each for each in audited(shop(run)).found if each.history == "reported"]
    assert [(each.call, each.candidate, each.prompt_tokens) for each in found] == [(1, 7, 500), (3, 157, 650)]
    assert {each.counter for each in found} == {"reported+whitespace"}
    assert {each.effective for each in found} == {128_000 - 4096 - (500 - 7)}


def test_a_run_without_its_system_prompt_is_left_out_not_taken_for_free(lines):
    """Fixed overhead of 0 would make every run look emptier than it was."""
    file = lines("a.jsonl", [tau_run()])
    audit = audited(file)
    assert not audit.found
    assert "fixed overhead is unknown" in audit.failures[0].problem
    assert {each.fixed for each in audited(file, unrecorded_overhead=77).found} == {77}


def test_an_id_in_a_record_cannot_name_a_file_elsewhere(lines, tmp_path):
    """An id is data; it must not read what lies above the folder."""
    (tmp_path / "secret.txt").write_text("words " * 9)
    (tmp_path / "secret.json").write_text("[]")
    (tmp_path / "in" / "system_prompts").mkdir(parents=True)
    (tmp_path / "in" / "tools").mkdir()
    run = tau_run() | {"system_prompt_id": "../../secret", "tools_id": "../../secret"}
    assert "unknown" in audited(lines("in/a.jsonl", [run])).failures[0].problem


def test_overhead_beyond_the_window_is_an_error_not_a_negative_pressure(shop):
    """A negative rho would count as far from full."""
    audit = audited(shop(tau_run()), window=100, reserved=95)
    assert not audit.found
    assert "leaves nothing for the history" in audit.failures[0].problem


def condensed_log():
    """A task of three words and three steps, the first of them forgotten for a summary of two words."""
    log = openhands_log(steps=3)
    log.insert(
        6, event("Condensation", 90, "environment", forgotten_event_ids=["event-2", "event-3"], summary="it went")
    )
    return log


def test_a_condensed_history_is_measured_whole_and_as_it_was_sent(lines):
    """Pressure of everything recorded and pressure at the model differ; both are asked for, under two names."""
    found = audited(lines("a.jsonl", condensed_log())).found
    sizes = {kind: [each.candidate for each in found if each.history == kind] for kind in ("whole", "condensed")}
    step = sizes["whole"][1]
    assert sizes["whole"] == [0, step, 2 * step]
    assert sizes["condensed"] == [0, step, step + 2]
    assert {each.request for each in found} == {3}
    assert {each.window for each in found} == {200_000}


def test_a_new_summary_replaces_the_old_one(lines):
    """The newest stands in for all that is forgotten; adding both would count what the model no longer saw."""
    log = condensed_log()
    log.append(
        event("Condensation", 91, "environment", forgotten_event_ids=["event-4", "event-5"], summary="so it went")
    )
    log += [action(92, "z", "response-z")]
    found = [each for each in audited(lines("a.jsonl", log)).found if each.history == "condensed"]
    assert found[3].candidate == found[1].candidate + 3


def test_a_forgotten_task_stays_fixed_overhead(lines):
    """It is counted once, as the final request, whatever a condenser did to its event."""
    log = condensed_log()
    log[6]["forgotten_event_ids"] = ["event-1"]
    found = [each for each in audited(lines("a.jsonl", log)).found if each.history == "condensed"]
    assert found[2].candidate == 2 * found[1].candidate + 2


def test_a_batch_of_actions_is_one_snapshot(lines):
    """As in the replay: the second action was not decided from the first."""
    log = openhands_log(steps=0)
    log += [action(2, "a", "r"), action(3, "b", "r"), observation(4, "a", 2), observation(5, "b", 3)]
    assert [each.call for each in audited(lines("a.jsonl", log)).found if each.history == "whole"] == [1]


def test_usage_and_window_are_joined_from_beside_the_log(lines):
    """Reported tokens by response id, the agent's own calls only; the window by conversation."""
    usage = [
        {"conversation": "a", "service": "default", "response_id": "response-1", "prompt_tokens": 900},
        {"conversation": "a", "service": "condenser", "response_id": "response-2", "prompt_tokens": 7},
        {"conversation": "a", "service": [], "response_id": "response-3", "prompt_tokens": 8},
    ]
    companions = [
        lines("logs/index.jsonl", [{"conversation": "a", "max_input_tokens": 50_000}]),
        lines("logs/token_usage.jsonl.gz", usage),
    ]
    audit = audited(lines("logs/set/a.jsonl", openhands_log()), *companions)
    assert not audit.failures
    assert {each.window for each in audit.found} == {50_000}
    assert [(each.call, each.prompt_tokens) for each in audit.found if each.history == "reported"] == [(2, 900)]
    assert audit.report(complete=True)["companions"] == sorted(map(str, companions))


def test_a_conversation_folder_is_measured_like_its_log(lines, tmp_path):
    """Each event file stands for a line."""
    events = tmp_path / "a" / "events"
    events.mkdir(parents=True)
    for number, each in enumerate(condensed_log()):
        (events / f"event-{number:05}-{each['id']}.json").write_text(json.dumps(each))
    folder, file = audited(*find_files([tmp_path / "a"])), audited(lines("a.jsonl", condensed_log()))
    assert folder.rows() == file.rows()
    assert {each.trace for each in folder.found} == {"a"}


def test_a_damaged_list_is_named_and_the_logs_are_still_measured(lines):
    """Nothing of the list is used, and it is not forgotten that it was not."""
    lines("logs/token_usage.jsonl", [{"conversation": "a", "response_id": "response-1", "prompt_tokens": "many"}])
    audit = audited(lines("logs/a.jsonl", openhands_log()))
    assert [failure.line for failure in audit.failures] == [1]
    assert {each.history for each in audit.found} == {"whole", "condensed"}


def test_an_image_is_counted_as_not_counted(lines):
    """No text counter can size it, so the pressure is a lower bound and must say so."""
    log = openhands_log(steps=1)
    log[1]["llm_message"]["content"] = [text("Fix this."), {"type": "image", "image_urls": ["data:..."]}]
    file = lines("a.jsonl", log)
    assert audited(file).uncounted == {file: 1}


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "Condensation", "forgotten_event_ids": None},
        {"kind": "ObservationEvent", "tool_call_id": "x", "observation": {"output": "native"}},
        {"kind": "NeverSeenEvent"},
    ],
)
def test_an_event_that_cannot_be_counted_costs_its_file(lines, damage):
    """Skipping it would lower the pressure of every later call."""
    log = openhands_log(steps=2)
    log.insert(3, {"id": "odd", "source": "agent", **damage})
    audit = audited(lines("a.jsonl", log), lines("b.jsonl", openhands_log(steps=1)))
    assert [failure.line for failure in audit.failures] == [4]
    assert {each.trace for each in audit.found} == {"b"}


@pytest.mark.parametrize("tokens", ["5", -1, True, 1.5, 10**400])
def test_a_reported_count_that_is_none_costs_its_file(shop, tokens):
    """A wild number would become the maximum of its source."""
    run = tau_run()
    run["messages"][2]["usage"] = {"prompt_tokens": tokens}
    audit = audited(shop(run))
    assert "usage.prompt_tokens" in audit.failures[0].problem


@pytest.mark.parametrize("role", [[], {}, None, 3, "oracle"])
def test_a_role_of_any_type_is_a_named_fault(shop, role):
    """Not a crash that takes the other files with it."""
    run = tau_run()
    run["messages"][1]["role"] = role
    assert "messages[1].role" in audited(shop(run)).failures[0].problem


def chat(*more, **keys):
    """System text of two words, a question of three, a call of two, a result of one, an answer of one."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "here"},
        {"role": "assistant", "content": "Here."},
        *more,
    ]
    return {"messages": messages, "tools": [{"name": "look"}]} | keys


def test_plain_conversations_are_measured(lines):
    """The logs most people have; a request about to be sent is a call too."""
    file = lines("a.jsonl", [chat(), chat({"role": "user", "content": "And now?"})])
    found = audited(file, window=1000, reserved=100).found
    assert [(each.fixed, each.request, each.candidate) for each in found] == [
        *[(4, 3, 0), (4, 3, 3)] * 2,
        (4, 2, 7),
    ]


@pytest.mark.parametrize(
    ("record", "options", "problem"),
    [
        (chat(), {}, "how large the model's window was"),
        (chat(tools=None), {"window": 1000}, "fixed overhead is unknown"),
        (chat({"role": "oracle", "content": ""}), {"window": 1000}, "messages[5].role"),
        (chat({"role": "user", "content": 3}), {"window": 1000}, "messages[5].content"),
        (chat({"role": "assistant", "tool_calls": [{}]}), {"window": 1000}, "messages[5].tool_calls[0]"),
    ],
)
def test_what_a_conversation_does_not_say_is_not_assumed(lines, record, options, problem):
    """A guessed window or tool list would be a guessed pressure."""
    audit = audited(lines("a.jsonl", [record]), **{"reserved": 0} | options)
    assert not audit.found
    assert problem in audit.failures[0].problem


def test_percentiles_interpolate():
    """Between the two nearest values, as numpy and the stated figures do."""
    assert percentile([1, 2, 3, 10], 50) == 2.5
    assert percentile([1, 2, 3, 10], 100) == 10
    assert percentile([4], 99) == 4


SOURCES = {"tau2 ALL": ("dataset", "tau2-bench"), "tau ALL": ("all", "tau"), "openhands ALL": ("all", "openhands")}
KINDS = {
    "ws": ("whitespace", "whole"),
    "bpe": ("tiktoken:cl100k_base", "whole"),
    "rep": ("reported+tiktoken:cl100k_base", "reported"),
    "view_ws": ("whitespace", "condensed"),
    "view_bpe": ("tiktoken:cl100k_base", "condensed"),
}


def published(folder):
    """Yield (level, source, measure, n, printed p50, p90, p99, max) for every line of stats.txt that we measure."""
    for line in (folder / "stats.txt").read_text().splitlines():
        if head := re.fullmatch(r"(\S+(?: \S+)?): \d+ snapshots in \d+ traces", line):
            name = head[1]
            if name.startswith("tau/"):
                tau1 = name.startswith("tau/tau1")
                source = "set", f"tau-bench/{name[4:]}" if tau1 else f"tau2-bench/{name[9:]}"
            else:
                source = SOURCES.get(name) or ("domain", name.replace("tau2 ", "tau2-bench/"))
        elif found := re.match(r"  (\w+) +n= *(\d+) p50=(\S+) p90=(\S+) p99=(\S+) max=(\S+)", line):
            yield (*source, found[1], int(found[2]), found.groups()[2:])


@pytest.mark.slow
def test_every_recorded_figure_agrees_to_its_printed_digits(recorded_data):
    """An independent count of the same runs: pressures, history tokens, reported prompt tokens."""
    cl100k = counter_named("cl100k_base")
    audit = audited(
        *find_files([recorded_data / "tau", recorded_data / "openhands" / "sdk158"]),
        counters=(WORDS, Tokens(name=cl100k.name, count=remembering(cl100k))),
    )
    assert not audit.failures
    rows = {(row["level"], row["source"], row["counter"], row["history"]): row for row in audit.rows()}
    compared = 0
    for level, source, measure, n, printed in published(recorded_data):
        if measure in {"msgs", "events"}:
            continue
        if measure == "prompt_tokens":
            kind, column = KINDS["rep"], "prompt_tokens"
        elif measure.startswith("rho_"):
            kind, column = KINDS[measure.removeprefix("rho_")], "rho"
        else:
            # For OpenHands the published history leaves out the task, as our candidate does.
            kind, column = (
                KINDS[measure.removeprefix("raw_")],
                "candidate" if source == "openhands" else "history_tokens",
            )
        row = rows[level, source, *kind]
        assert row["snapshots"] == n, (source, measure)
        if column == "prompt_tokens":
            values = sorted(
                each.prompt_tokens
                for each in audit.found
                if each.history == "reported" and each.sources.get(level) == source
            )
            ours = [percentile(values, quantile) for quantile in (50, 90, 99, 100)]
        else:
            ours = [row[f"{column}_{quantile}"] for quantile in ("p50", "p90", "p99", "max")]
        assert tuple(f"{value:.{4 if column == 'rho' else 0}f}" for value in ours) == printed, (source, measure)
        assert column != "rho" or row["rho_ge_1"] == 0
        compared += 1
    assert compared == 78
    assert json.dumps(audit.rows())
