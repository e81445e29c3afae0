"""The policy file: whatever is wrong with it is an error with file, line, path and mend, never a weaker plane."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from carriage_core import (
    ControlPlane,
    Effect,
    Issuer,
    IssuerKind,
    PolicyFileError,
    PolicyRegistry,
    Sort,
    Tier,
    Utf8UpperBound,
    load_policy_file,
    parse_policy_text,
    render,
)
from integration_tests.core.samples import RELEASE_POLICY

LINES = RELEASE_POLICY.split("\n")


def line_of(fragment: str, text: str = RELEASE_POLICY) -> int:
    """The 1-based line on which a fragment starts."""
    assert text.count(fragment) >= 1, fragment
    return text[: text.index(fragment)].count("\n") + 1


def refused(text: str) -> PolicyFileError:
    """The error for a file, which must be complete in all its parts."""
    with pytest.raises(PolicyFileError) as caught:
        parse_policy_text(text, source="rules.yaml")
    error = caught.value
    assert error.faults
    for fault in error.faults:
        assert fault.line >= 1
        assert fault.message
        assert fault.mend
        assert f"rules.yaml:{fault.line}: {fault.path or 'file'}: {fault.message} ({fault.mend})" in str(error)
    assert error.file == "rules.yaml"
    return error


def test_the_policy_of_the_release_story_loads() -> None:
    """The file in the documentation gives exactly the rule it says."""
    registry = parse_policy_text(RELEASE_POLICY)
    (policy,) = registry.policies
    assert policy.id == "verify-before-delete"
    assert policy.issuer == Issuer(kind=IssuerKind.ORGANIZATION, name="platform-security")
    assert (policy.version, policy.scope.tenant, policy.actions, policy.object_type) == (
        1,
        "acme",
        ("delete",),
        "release_artifact",
    )
    assert policy.effect is Effect.DENY
    (declaration,) = policy.declarations.values()
    assert (declaration.from_tool, declaration.key, declaration.expires_seconds, declaration.single_use) == (
        "verify_release",
        ("artifact",),
        3600,
        True,
    )
    assert sorted(registry.bindings) == ["delete_artifact", "list_artifacts", "verify_release"]
    (verify,) = registry.bindings["verify_release"]
    assert (verify.external, verify.trusted_evidence) == (False, True)
    (delete,) = registry.bindings["delete_artifact"]
    assert (delete.external, delete.line) == (True, line_of("  delete_artifact:") + 1)


def test_json_is_read_like_yaml() -> None:
    """The same file as JSON gives the same registry."""
    tree = YAML(typ="safe", pure=True).load(RELEASE_POLICY)
    assert parse_policy_text(json.dumps(tree, indent=2)).digest == parse_policy_text(RELEASE_POLICY).digest


def test_a_rule_of_four_lines_is_legal() -> None:
    """Id, issuer, effect and text are enough: carried, not mediated."""
    text = "carriage: 1\npolicies:\n- {id: a, issuer: {kind: user, name: ana}, effect: deny, text: Be kind.}\n"
    (policy,) = parse_policy_text(text).policies
    assert (policy.mediated, policy.version, policy.priority) == (False, 1, 0)


def test_a_bare_value_means_equal() -> None:
    """Under object, a scalar is a comparison for equality."""
    bare = parse_policy_text(RELEASE_POLICY.replace('{glob: "acme/*"}', "acme/api"))
    spelt = parse_policy_text(RELEASE_POLICY.replace('{glob: "acme/*"}', "{eq: acme/api}"))
    assert bare.digest == spelt.digest


UNLESS = RELEASE_POLICY[RELEASE_POLICY.index("      all:") : RELEASE_POLICY.index("    text:")]

# Old text, new text, a piece of the line where the fault is (in the new file), path, a piece of message or mend.
FAULTS: dict[str, tuple[str, str, str, str, str]] = {
    "misspelt top key": ("policies:", "polices:", "polices:", "polices", "did you mean 'policies'"),
    "misspelt policy key": ("    unless:", "    unles:", "    unles:", "policies[0].unles", "did you mean 'unless'"),
    "misspelt effect key": (
        "    effect: deny",
        "    efect: deny",
        "    efect:",
        "policies[0].efect",
        "did you mean 'effect'",
    ),
    "misspelt tool key": (
        "external: false",
        "externl: false",
        "externl",
        "tools.verify_release.externl",
        "did you mean 'external'",
    ),
    "misspelt scope key": (
        "{tenant: acme}",
        "{tenat: acme}",
        "tenat",
        "policies[0].scope.tenat",
        "did you mean 'tenant'",
    ),
    "misspelt operator": ("glob:", "glop:", "glop", "policies[0].object.repository.glop", "did you mean 'glob'"),
    "misspelt evidence key": (
        "single_use: true",
        "single-use: true",
        "single-use",
        "policies[0].evidence.verification.single-use",
        "did you mean 'single_use'",
    ),
    "misspelt effect": ("effect: deny", "effect: dney", "dney", "policies[0].effect", "did you mean 'deny'"),
    "misspelt issuer kind": (
        "kind: organization",
        "kind: organisation",
        "organisation",
        "policies[0].issuer.kind",
        "did you mean 'organization'",
    ),
    "misspelt origin": (
        "{result: status}",
        "{reslt: status}",
        "reslt",
        "policies[0].evidence.verification.fields.status.reslt",
        "did you mean 'result'",
    ),
    "undefined attribute": (
        "eq: {attr: object.id}",
        "eq: {attr: object.idd}",
        "object.idd",
        "policies[0].unless.all[1].eq.attr",
        "did you mean 'object.id'",
    ),
    "undefined object attribute": (
        "repository: {glob",
        "repo: {glob",
        "    object: {type: release_artifact, repo:",
        "policies[0].object.repo",
        "did you mean 'object.repository'",
    ),
    "undefined evidence": (
        "evidence.verification.status",
        "evidence.verificaton.status",
        "  - id:",
        "policies[0]",
        "declare it under evidence",
    ),
    "undefined evidence field": (
        "evidence.verification.status",
        "evidence.verification.state",
        "  - id:",
        "policies[0]",
        "is not a field of evidence",
    ),
    "undefined action": (
        "    action: delete\n    object: {type: release_artifact, repository",
        "    action: delet\n    object: {type: release_artifact, repository",
        "    action: delet\n",
        "policies[0].action",
        "did you mean 'delete'",
    ),
    "undefined type": (
        "object: {type: release_artifact, repository",
        "object: {type: release_artefact, repository",
        "release_artefact",
        "policies[0].object.type",
        "did you mean 'release_artifact'",
    ),
    "unknown tool argument": (
        "artifact: {argument: artifact_id}",
        "artifact: {argument: artefact_id}",
        "artefact_id",
        "policies[0].evidence.verification.fields.artifact.argument",
        "did you mean 'artifact_id'",
    ),
    "evidence of an unbound tool": (
        "from_tool: verify_release",
        "from_tool: verify_releases",
        "from_tool:",
        "policies[0].evidence.verification.from_tool",
        "did you mean 'verify_release'",
    ),
    "evidence of an untrusted tool": (
        "from_tool: verify_release",
        "from_tool: delete_artifact",
        "from_tool:",
        "policies[0].evidence.verification.from_tool",
        "trusted_evidence: true",
    ),
    "no": (
        "single_use: true",
        "single_use: no",
        "single_use: no",
        "policies[0].evidence.verification.single_use",
        "truth value to some readers",
    ),
    "yes in capitals": (
        "external: false",
        "external: NO",
        "external: NO",
        "tools.verify_release.external",
        "truth value to some readers",
    ),
    "no as a name": ("tenant: acme", "tenant: no", "tenant: no", "policies[0].scope.tenant", "in quotes"),
    "Off": ("eq: succeeded", "eq: Off", "eq: Off", "policies[0].unless.all[0].eq", "in quotes"),
    "1.10": ("eq: succeeded", "eq: 1.10", "1.10", "policies[0].unless.all[0].eq", "in quotes"),
    "leading zero": ("eq: succeeded", "eq: 0777", "0777", "policies[0].unless.all[0].eq", "in quotes"),
    "exponent": ("eq: succeeded", "eq: 1e3", "1e3", "policies[0].unless.all[0].eq", "in quotes"),
    "hexadecimal": ("eq: succeeded", "eq: 0xFF", "0xFF", "policies[0].unless.all[0].eq", "in quotes"),
    "octal": ("eq: succeeded", "eq: 0o17", "0o17", "policies[0].unless.all[0].eq", "in quotes"),
    "sexagesimal": ("eq: succeeded", "eq: 12:30", "12:30", "policies[0].unless.all[0].eq", "in quotes"),
    "underscores": ("eq: succeeded", "eq: 1_000", "1_000", "policies[0].unless.all[0].eq", "in quotes"),
    "not a number": ("eq: succeeded", "eq: .nan", ".nan", "policies[0].unless.all[0].eq", "in quotes"),
    "infinity": ("eq: succeeded", "eq: -.inf", "-.inf", "policies[0].unless.all[0].eq", "in quotes"),
    "plus sign": ("eq: succeeded", "eq: +1", "+1", "policies[0].unless.all[0].eq", "in quotes"),
    "null": ("eq: succeeded", "eq: null", "eq: null", "policies[0].unless.all[0].eq", "literal"),
    "tilde": ("eq: succeeded", "eq: ~", "eq: ~", "policies[0].unless.all[0].eq", "literal"),
    "nothing": (
        "text: Do not delete release artifacts unless verification Z succeeds.",
        "text:",
        "    text:",
        "policies[0].text",
        "text is needed",
    ),
    "duplicate key": (
        "    effect: deny",
        "    effect: deny\n    effect: confirm",
        "    effect: confirm",
        "policies[0].effect",
        "occurs twice",
    ),
    "duplicate tool": (
        "  list_artifacts: {action: none}",
        "  list_artifacts: {action: none}\n  delete_artifact: {action: none}",
        "  delete_artifact: {action: none}",
        "tools.delete_artifact",
        "occurs twice",
    ),
    "duplicate key in flow": (
        "{tenant: acme}",
        "{tenant: acme, tenant: globex}",
        "tenant: globex",
        "policies[0].scope.tenant",
        "occurs twice",
    ),
    "duplicate top key": (
        "policies:\n",
        "default: allow\npolicies:\n",
        "default: allow\npolicies",
        "default",
        "occurs twice",
    ),
    "anchor": ("effect: deny", "effect: &e deny", "&e", "", "aliases and anchors are off"),
    "alias": ("    effect: deny", "    effect: *e", "*e", "", "aliases and anchors are off"),
    "tag": ("version: 1\n    scope", "version: !!int 1\n    scope", "!!int", "", "explicit tags are off"),
    "own tag": ("effect: deny", "effect: !lift deny", "!lift", "", "explicit tags are off"),
    "tagged mapping": ("{tenant: acme}", "!!map {tenant: acme}", "!!map", "", "explicit tags are off"),
    "merge key": (
        "    effect: deny",
        "    <<: {effect: confirm}\n    effect: deny",
        "    <<:",
        "policies[0].<<",
        "merge keys are off",
    ),
    "empty all": (
        UNLESS,
        "      all: []\n",
        "      all: []",
        "policies[0].unless.all",
        "an empty all",
    ),
    "empty any": (
        UNLESS,
        "      any: []\n",
        "      any: []",
        "policies[0].unless.any",
        "an empty any",
    ),
    "empty in": (
        '{glob: "acme/*"}',
        "{in: []}",
        "{in: []}",
        "policies[0].object.repository.in",
        "at least one literal",
    ),
    "empty action list": (
        "    action: delete\n    object: {type: release_artifact, repository",
        "    action: []\n    object: {type: release_artifact, repository",
        "    action: []",
        "policies[0].action",
        "list of names",
    ),
    "empty key list": (
        "key: [artifact]",
        "key: []",
        "key: []",
        "policies[0].evidence.verification.key",
        "list of names",
    ),
    "two comparisons": (
        '{glob: "acme/*"}',
        '{glob: "acme/*", eq: x}',
        "eq: x",
        "policies[0].object.repository",
        "one comparison is needed",
    ),
    "no comparison": (
        '{glob: "acme/*"}',
        "{}",
        "repository: {}",
        "policies[0].object.repository",
        "one comparison is needed",
    ),
    "all beside any": (
        "      all:\n",
        "      any: [{attr: tenant, eq: x}]\n      all:\n",
        "      any:",
        "policies[0].unless",
        "one of all, any, not or attr",
    ),
    "glob of a number": (
        '{glob: "acme/*"}',
        "{glob: 5}",
        "{glob: 5}",
        "policies[0].object.repository.glob",
        "literal string",
    ),
    "order of texts": ('{glob: "acme/*"}', "{lt: acme}", "{lt: acme}", "policies[0].object.repository.lt", "no order"),
    "bare time": (
        "    effect: deny",
        "    effect: deny\n    valid_until: 2026-12-01",
        "valid_until",
        "policies[0].valid_until",
        "zone",
    ),
    "duration without unit": (
        "expires: 1h",
        "expires: 60",
        "expires: 60",
        "policies[0].evidence.verification.expires",
        "text is needed",
    ),
    "duration of nothing": (
        "expires: 1h",
        "expires: 0h",
        "expires: 0h",
        "policies[0].evidence.verification.expires",
        "not a duration",
    ),
    "version as text": (
        "version: 1\n    scope",
        'version: "1"\n    scope',
        'version: "1"',
        "policies[0].version",
        "whole number",
    ),
    "version zero": ("version: 1\n    scope", "version: 0\n    scope", "  - id:", "policies[0]", "versions start at 1"),
    "id in capitals": ("id: verify-before-delete", "id: Verify-Before-Delete", "  - id:", "policies[0]", "lower case"),
    "no issuer": (
        "    issuer: {kind: organization, name: platform-security}\n",
        "",
        "  - id:",
        "policies[0]",
        "'issuer' is missing",
    ),
    "no text": (
        "    text: Do not delete release artifacts unless verification Z succeeds.\n",
        "",
        "  - id:",
        "policies[0]",
        "'text' is missing",
    ),
    "no version of the format": ("carriage: 1\n", "", "default: allow", "", "'carriage' is missing"),
    "unknown version": ("carriage: 1", "carriage: 2", "carriage: 2", "carriage", "not known"),
    "version of the format as text": ("carriage: 1", 'carriage: "1"', "carriage:", "carriage", "not known"),
    "version of the format as truth": ("carriage: 1", "carriage: true", "carriage: true", "carriage", "not known"),
    "unknown default": ("default: allow", "default: perhaps", "default: perhaps", "default", "not supported"),
    "policies as mapping": ("policies:\n  - id:", "policies:\n    id:", "    id:", "policies", "there is no policy"),
    "tool without action": (
        "list_artifacts: {action: none}",
        "list_artifacts: {}",
        "list_artifacts: {}",
        "tools.list_artifacts",
        "'action' is missing",
    ),
    "harmless tool with an object": (
        "list_artifacts: {action: none}",
        "list_artifacts: {action: none, object: {type: x}}",
        "list_artifacts",
        "tools.list_artifacts.object",
        "harmless",
    ),
    "harmless tool with evidence": (
        "list_artifacts: {action: none}",
        "list_artifacts: {action: none, trusted_evidence: true}",
        "list_artifacts",
        "tools.list_artifacts.trusted_evidence",
        "harmless",
    ),
    "unused evidence": (
        UNLESS.removeprefix("      all:\n        - {attr: ").rstrip(),
        "object.id, eq: a}",
        "  - id:",
        "policies[0]",
        "never read",
    ),
    "where reads evidence": (
        "    unless:",
        "    where: {attr: evidence.verification.status, eq: succeeded}\n    unless:",
        "  - id:",
        "policies[0]",
        "cannot read evidence",
    ),
    "key from the result": (
        "artifact: {argument: artifact_id}",
        "artifact: {result: artifact_id}",
        "        from_tool:",
        "policies[0].evidence.verification",
        "comes from the result",
    ),
    "hidden character in the text": (
        "Do not delete release",
        "Do not \u200bdelete release",
        "  - id:",
        "policies[0]",
        "U+200B",
    ),
    "hidden character in a literal": ('"acme/*"', '"acme\\u202e/*"', "  - id:", "policies[0]", "normal form"),
    "hidden character in a tool's name": (
        "  list_artifacts:",
        '  "list\\u200b_artifacts":',
        '  "list',
        "tools.list\u200b_artifacts",
        "visible",
    ),
    "hidden character in an argument's name": (
        "id: artifact_id, repository",
        'id: "artifact\\u202e_id", repository',
        "    action: delete",
        "tools.delete_artifact",
        "visible",
    ),
    "names that can be confused": ("  list_artifacts:", "  delete-artifact:", "carriage", "", "can be confused"),
    "tab for indentation": ("    effect: deny", "\teffect: deny", "\teffect", "", "not YAML"),
    "unclosed bracket": (
        "{tenant: acme}",
        "{tenant: acme",
        "    action: delete\n    object: {type: release_artifact, repository",
        "",
        "not YAML",
    ),
    "unclosed quote": ('"acme/*"', '"acme/*', "", "", "not YAML"),
    "list in place of text": (
        "tenant: acme",
        "tenant: [acme]",
        "tenant: [acme]",
        "policies[0].scope.tenant",
        "text is needed",
    ),
    "text in place of a mapping": ("{tenant: acme}", "acme", "scope: acme", "policies[0].scope", "a mapping is needed"),
    "number in place of text": (
        "name: platform-security",
        "name: 5",
        "name: 5",
        "policies[0].issuer.name",
        "in quotes",
    ),
}


@pytest.mark.parametrize(("old", "new", "place", "path", "said"), FAULTS.values(), ids=FAULTS)
def test_a_mistake_in_a_file_is_found_where_it_is(old: str, new: str, place: str, path: str, said: str) -> None:
    """Each mistake is one error that names its line and path and how to mend it; there is no plane."""
    assert old in RELEASE_POLICY
    text = RELEASE_POLICY.replace(old, new, 1)
    error = refused(text)
    fitting = [fault for fault in error.faults if said in f"{fault.message} ({fault.mend})"]
    assert fitting, str(error)
    if place:
        assert line_of(place, text) in [fault.line for fault in fitting], str(error)
    if path:
        assert path in [fault.path for fault in fitting], str(error)


def test_a_duplicate_id_is_found_and_both_lines_are_named() -> None:
    """Two policies of one issuer with one id: the second is the fault, the first is named."""
    start = RELEASE_POLICY.index("  - id:")
    error = refused(RELEASE_POLICY + RELEASE_POLICY[start:])
    (fault,) = error.faults
    assert fault.path == "policies[1].id"
    assert fault.line == RELEASE_POLICY.count("\n") + 1
    assert f"line {line_of('  - id:')}" in fault.message


def test_one_id_of_two_issuers_is_two_rules() -> None:
    """Identity is issuer and id, so another issuer's rule of the same id stands beside it."""
    start = RELEASE_POLICY.index("  - id:")
    other = RELEASE_POLICY[start:].replace("platform-security", "legal")
    assert len(parse_policy_text(RELEASE_POLICY + other).policies) == 2


@pytest.mark.parametrize("empty", ["policies: []", "policies: {}", "policies:", 'policies: ""', "policies: none"])
def test_a_file_without_a_policy_protects_nothing_and_is_refused(empty: str) -> None:
    """An empty policy list, however it is written, is an error."""
    text = RELEASE_POLICY[: RELEASE_POLICY.index("policies:")] + empty + "\n"
    error = refused(text)
    assert error.faults[0].line == line_of("policies", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# nothing\n",
        "null",
        "5",
        "just text",
        "[]",
        "{}",
        "- a\n- b",
        "---\n",
        "carriage: 1",
        "{",
        "]",
        "\x00",
        "a: b: c",
        "%YAML 1.1\n---\ncarriage: 1\n",
        "? [a]\n: b\n",
        "\ufeff",
        "carriage: 1\n\x07",
    ],
    ids=repr,
)
def test_a_file_that_is_no_policy_file_is_refused(text: str) -> None:
    """Empty, cut off, or something else altogether: an error and no plane."""
    refused(text)


def test_a_second_document_is_refused() -> None:
    """A rule after `---` would be read by one program and not by another."""
    error = refused(RELEASE_POLICY + "---\n" + RELEASE_POLICY)
    assert [(fault.line, "second document" in fault.message) for fault in error.faults] == [
        (RELEASE_POLICY.count("\n") + 1, True)
    ]


@pytest.mark.parametrize(
    "deep",
    ["[" * 2_000, "{a: " * 200 + "1" + "}" * 200, "[" * 40 + "]" * 40, "\n".join(" " * n + "a:" for n in range(60))],
)
def test_deep_nesting_is_refused(deep: str) -> None:
    """Nesting past the limit is an error, not a crash."""
    assert any(
        "nested" in f.message or "not YAML" in f.message for f in refused(f"carriage: 1\npolicies: {deep}").faults
    )
    inner = "{attr: object.id, eq: a}"
    for _ in range(14):
        inner = f"{{not: {{all: [{inner}]}}}}"
    refused(RELEASE_POLICY.replace("    unless:", f"    where: {inner}\n    unless:"))


def test_aliases_do_not_multiply() -> None:
    """A file of nested aliases is refused before anything is expanded."""
    laughs = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
    assert "aliases and anchors are off" in str(refused(laughs))


def test_every_fault_of_a_file_is_told_at_once() -> None:
    """Three mistakes are three faults in the order of their lines, so a file is mended in one go."""
    text = RELEASE_POLICY.replace("external: false", "externl: false").replace("effect: deny", "effect: dney")
    text = text.replace("glob:", "glop:")
    lines = [fault.line for fault in refused(text).faults]
    assert lines == sorted(lines)
    assert {line_of("externl", text), line_of("dney", text), line_of("glop", text)} <= set(lines)


def test_a_file_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    """Missing, a folder, not UTF-8: the same kind of error, with file, line, path and mend."""
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(RELEASE_POLICY.replace("Do not", "Löschen nicht, do not").encode("latin-1"))
    wide = tmp_path / "wide.yaml"
    wide.write_text(RELEASE_POLICY, encoding="utf-16")
    for path, said in (
        (tmp_path / "missing.yaml", "cannot be read"),
        (tmp_path, "cannot be read"),
        (latin, "UTF-8"),
        (wide, "UTF-8"),
    ):
        for load in (load_policy_file, ControlPlane.from_file):
            with pytest.raises(PolicyFileError, match=said) as caught:
                load(path)
            assert str(caught.value).startswith(f"{path}:1: file: ")
            assert caught.value.mend


def test_a_file_on_disk_gives_the_plane_it_says(tmp_path: Path) -> None:
    """A sound file loads by its path, as text or Path."""
    path = tmp_path / "policies.yaml"
    path.write_text(RELEASE_POLICY, encoding="utf-8")
    for spelt in (path, str(path)):
        plane = ControlPlane.from_file(spelt, actor="bot", tenant="acme", counter=Utf8UpperBound())
        assert plane.registry.digest == parse_policy_text(RELEASE_POLICY).digest
        assert plane.capsule().ids == ("verify-before-delete",)


KEYS = sorted(
    set(re.findall(r"([a-z_]+):", RELEASE_POLICY)) - {"artifact", "status", "repository", "verification", "id"}
)
_NAMES = {"delete_artifact", "verify_release", "list_artifacts"}


@pytest.mark.parametrize("key", [key for key in KEYS if key not in _NAMES])
def test_no_misspelt_key_makes_a_rule_that_says_less(key: str) -> None:
    """Every key of the file with one letter dropped or doubled is an error, wherever it stands."""
    for wrong in (key[:-1], key + key[-1], key.upper()):
        for match in re.finditer(rf"\b{key}:", RELEASE_POLICY):
            text = RELEASE_POLICY[: match.start()] + wrong + RELEASE_POLICY[match.end() - 1 :]
            refused(text)


@given(st.text(max_size=40))
def test_no_text_fails_in_any_other_way(text: str) -> None:
    """Arbitrary text is a `PolicyFileError`, never another exception and never a registry."""
    with pytest.raises(PolicyFileError):
        parse_policy_text(text)


_bits = st.sampled_from(
    (
        "",
        " ",
        "\n",
        "  ",
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "*",
        "&a ",
        "!!str ",
        "#",
        '"',
        "'",
        "|",
        "> ",
        "? ",
        "<<: ",
        "no",
        "1.10",
        "---\n",
        "\t",
        "\x00",
        "é",
        "\u200b",
        "%",
        "@",
        "`",
        ",",
    )
)


@pytest.mark.slow
@given(st.integers(0, len(RELEASE_POLICY)), st.integers(0, 12), _bits)
def test_no_damage_to_a_file_fails_in_any_other_way(at: int, cut: int, put: str) -> None:
    """A file with a piece cut out or put in is an error with lines, or a registry whose capsule reads back."""
    text = RELEASE_POLICY[:at] + put + RELEASE_POLICY[at + cut :]
    try:
        registry = parse_policy_text(text)
    except PolicyFileError as error:
        assert all(fault.line >= 1 and fault.mend for fault in error.faults)  # noqa: PT017  # either way is right
    else:
        assert isinstance(registry, PolicyRegistry)
        assert registry.policies
        for tier in Tier:
            assert render(registry.policies, registry, tier).text


def test_what_the_file_can_say_reaches_the_rule() -> None:
    """Subject, where, several actions, validity, priority, times, types, constants and pins are all read."""
    text = """\
carriage: 1
tools:
  send:
    action: send
    server: mail
    object:
      type: message
      size: {argument: size, type: number}
      when: {argument: when, type: time}
      kind: {constant: outgoing}
    attributes: {urgent: {argument: urgent, type: bool}}
  post: {action: post, object: {type: message, size: length}}
policies:
  - id: a
    issuer: {kind: developer, name: team}
    subject: {in: [bot, deputy]}
    action: [send, post]
    object: {type: message, size: {gt: 1.5}}
    where:
      any:
        - {attr: time, lt: "2026-12-01T16:00:00Z"}
        - not: {attr: action.urgent, eq: true}
        - {attr: object.kind, exists: false}
    effect: confirm
    priority: -3
    valid_from: "2026-01-01T00:00:00Z"
    valid_until: "2027-01-01T00:00:00+02:00"
    text: |
      Ask before you
      send.
"""
    registry = parse_policy_text(text)
    (policy,) = registry.policies
    assert policy.actions == ("post", "send")
    assert policy.priority == -3
    assert policy.text == "Ask before you\nsend."
    assert policy.valid_until is not None
    assert policy.valid_until.isoformat() == "2026-12-31T22:00:00+00:00"
    (send,) = registry.bindings["send"]
    assert send.server == "mail"
    sources: dict[str, Any] = dict(send.object_attributes)
    assert (sources["size"].sort, sources["when"].sort, sources["kind"].constant) == (
        Sort.NUMBER,
        Sort.TIME,
        "outgoing",
    )
    assert dict(send.action_attributes)["urgent"].sort is Sort.BOOL
    shown = render(registry.policies, registry, Tier.FULL).text
    for piece in (
        'actor.id in ["bot", "deputy"]',
        "object.size > 1.5",
        'time < time "2026-12-01T16:00:00Z"',
        "not action.urgent == true",
        "not exists object.kind",
    ):
        assert piece in shown
