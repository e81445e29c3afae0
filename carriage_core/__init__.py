# SPDX-License-Identifier: Apache-2.0
"""policy-carriage core: trusted task policy carried to every model call, and judged at every action.

Start with `ControlPlane.from_file`. This package imports no agent framework.
"""

from carriage_core.adapter import Adapter, declared_adapters, load_adapter
from carriage_core.admission import Admission, HumanChannel, Message
from carriage_core.applicability import a_plus
from carriage_core.binding import Action, AttributeSource, ShellSource, ToolBinding, ToolSpec
from carriage_core.budget import Budget
from carriage_core.capsule import (
    ControlCapsule,
    Rendering,
    Span,
    Tier,
    constants_not_in_text,
    names_every_constant,
    render,
    replay_text,
)
from carriage_core.capsule_text import MARKER, ParsedCapsule, count_imitations, parse_capsule
from carriage_core.clause import Clause, clause_of, parse_clause, render_clause
from carriage_core.condition import All, AnyOf, Attribute, Compare, Not, Operator, Truth, evaluate
from carriage_core.decision import Decision, Settlement
from carriage_core.errors import (
    AdapterError,
    AdmissionError,
    CapsuleFormatError,
    CarriageError,
    CarriageIntegrityError,
    ControlError,
    ControlNotFoundError,
    ControlOverloadError,
    EmptyRegistryError,
    EvidenceError,
    Fault,
    FrameworkMissingError,
    OverloadNumbers,
    PolicyError,
    PolicyFileError,
    ProvenanceError,
    SinkError,
    StaleCapsuleError,
    ToolBindingError,
    UnknownAdapterError,
)
from carriage_core.file_schema import policy_file_schema
from carriage_core.human_lines import PassedLine
from carriage_core.manifest import ChainReport, Entry, EntryKind, Manifest, verify_chain
from carriage_core.plane import ControlPlane, find_plane
from carriage_core.policy import (
    CounterDeclaration,
    Effect,
    EvidenceDeclaration,
    FieldOrigin,
    FieldSource,
    Issuer,
    IssuerKind,
    Mode,
    Policy,
    Scope,
)
from carriage_core.policy_file import load_policy_file, parse_policy_text
from carriage_core.preflight import Assembly
from carriage_core.provenance import Provenance
from carriage_core.registry import PolicyRegistry
from carriage_core.runtime import Approval, Clock, EvidenceRecord, RuntimeState
from carriage_core.schema import Absent, FilePath, Sort, Url, Value
from carriage_core.sinks import JsonlSink, MemorySink, Sink
from carriage_core.tokens import TiktokenCounter, TokenCounter, Utf8UpperBound, WhitespaceCounter
from carriage_core.verdict import Outcome, Reason, ToolCall, Verdict

__all__ = [
    "MARKER",
    "Absent",
    "Action",
    "Adapter",
    "AdapterError",
    "Admission",
    "AdmissionError",
    "All",
    "AnyOf",
    "Approval",
    "Assembly",
    "Attribute",
    "AttributeSource",
    "Budget",
    "CapsuleFormatError",
    "CarriageError",
    "CarriageIntegrityError",
    "ChainReport",
    "Clause",
    "Clock",
    "Compare",
    "ControlCapsule",
    "ControlError",
    "ControlNotFoundError",
    "ControlOverloadError",
    "ControlPlane",
    "CounterDeclaration",
    "Decision",
    "Effect",
    "EmptyRegistryError",
    "Entry",
    "EntryKind",
    "EvidenceDeclaration",
    "EvidenceError",
    "EvidenceRecord",
    "Fault",
    "FieldOrigin",
    "FieldSource",
    "FilePath",
    "FrameworkMissingError",
    "HumanChannel",
    "Issuer",
    "IssuerKind",
    "JsonlSink",
    "Manifest",
    "MemorySink",
    "Message",
    "Mode",
    "Not",
    "Operator",
    "Outcome",
    "OverloadNumbers",
    "ParsedCapsule",
    "PassedLine",
    "Policy",
    "PolicyError",
    "PolicyFileError",
    "PolicyRegistry",
    "Provenance",
    "ProvenanceError",
    "Reason",
    "Rendering",
    "RuntimeState",
    "Scope",
    "Settlement",
    "ShellSource",
    "Sink",
    "SinkError",
    "Sort",
    "Span",
    "StaleCapsuleError",
    "Tier",
    "TiktokenCounter",
    "TokenCounter",
    "ToolBinding",
    "ToolBindingError",
    "ToolCall",
    "ToolSpec",
    "Truth",
    "UnknownAdapterError",
    "Url",
    "Utf8UpperBound",
    "Value",
    "Verdict",
    "WhitespaceCounter",
    "a_plus",
    "clause_of",
    "constants_not_in_text",
    "count_imitations",
    "declared_adapters",
    "evaluate",
    "find_plane",
    "load_adapter",
    "load_policy_file",
    "names_every_constant",
    "parse_capsule",
    "parse_clause",
    "parse_policy_text",
    "policy_file_schema",
    "render",
    "render_clause",
    "replay_text",
    "verify_chain",
]
