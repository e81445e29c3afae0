# SPDX-License-Identifier: Apache-2.0
"""Reads a command by the grammar of the shell, one construct at a time, and refuses what it does not know (DESIGN 3.4).

This is the first of two readings; `carriage_core.shell.tree` is the second, and both must find the same words and
commands. Functions, arrays, arithmetic with names, process files and everything that a shell evaluates twice are
refused: whatever raises `UnclearError` is an unknown action.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from carriage_core.shell.words import Arg, Hole, UnclearError, Unit, ansi_text, expand

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NESTING: Final = 12
"""Deepest nesting of substitutions and compound commands."""

MAX_CHAIN: Final = 100
"""Most commands joined by ``&&`` and ``||``."""

_OPERATOR: Final = re.compile(r"&>>|<<<|<<-|;;&|&&|\|\||;;|;&|\|&|&>|>>|>\||>&|<<|<&|<>|[>|&;()<\n]")
_REDIRECTS: Final = frozenset({"&>>", "<<<", "<<-", "&>", ">>", ">|", ">&", "<<", "<&", "<>", ">", "<"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+,-]+")
_PARAMETER: Final = re.compile(
    # The value of a variable is unknown anyway; the forms here neither run nor assign anything.
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#$!@*-]"
    r"|\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[?#$!@*-])\}"
    r"|\{[A-Za-z_][A-Za-z0-9_]*(?:##?|%%?|:?[-+?]|//?|\^\^?|,,?)[A-Za-z0-9_ ./:@%+,*?-]*\})"
)
_SUM: Final = re.compile(r"\$\(\([0-9 +*/%<>=!&|^~,-]*\)\)")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_HISTORY: Final = re.compile(r"![A-Za-z0-9!#$?^*:{-]")
_FOLLOWERS: Final = frozenset({"then", "do", "done", "fi", "else", "elif", "esac", "}", "in"})
_REFUSED: Final = frozenset({"function", "select", "coproc"}) | _FOLLOWERS
_BLANK: Final = " \t"
_BETWEEN: Final = frozenset(" \t\n;&|()<>")
_RESERVED: Final = re.compile(r"[a-z]+|[{}!]|\[\[|\(\(")
_NUMBERED: Final = re.compile(r"[0-9]+(?=[<>](?!\())")
_ANSI_QUOTED: Final = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL)
_DESCRIPTOR: Final = re.compile(r"\{[A-Za-z0-9_]*\}[<>]")


@dataclass(slots=True)
class Word:
    """A word where it stands: its place, its characters, and the commands inside it that run to make it."""

    start: int
    end: int
    units: list[Unit]
    inner: list[Node]
    bare: str | None
    """Its text if nothing of it is quoted or expanded: only then it can be a reserved word or an assignment."""

    def arguments(self) -> list[Arg]:
        """Expand it."""
        return expand(self.units)


@dataclass(slots=True)
class Redirect:
    """An operator with its target; a here-document has no target."""

    operator: str
    target: Word | None
    inner: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Simple:
    """Assignments, words and redirections; `test` marks ``[[ ... ]]``."""

    assignments: list[Word]
    words: list[Word]
    redirects: list[Redirect]
    test: bool = False


@dataclass(slots=True)
class Steps:
    """Commands one after the other."""

    parts: list[Node]


@dataclass(slots=True)
class Branch:
    """``left && right`` or ``left || right``."""

    left: Node
    right: Node
    on_success: bool


@dataclass(slots=True)
class Negated:
    """``! part``."""

    part: Node


@dataclass(slots=True)
class Apart:
    """Commands that run in processes of their own, so that no ``cd`` of theirs is felt outside.

    `last_here`: the last one of a pipeline does not in every shell.
    """

    parts: list[Node]
    last_here: bool = False


@dataclass(slots=True)
class Choice:
    """``if``: conditions and bodies in order, and the last body or None."""

    arms: list[tuple[Node, Node]]
    otherwise: Node | None


@dataclass(slots=True)
class Loop:
    """``while``, ``until`` or ``for``: what is tested or assigned, and what may run any number of times."""

    test: Node | None
    body: Node
    name: str | None = None


@dataclass(slots=True)
class Cases:
    """``case``: bodies of which one, none or, falling through, several run."""

    bodies: list[Node]


@dataclass(slots=True)
class Redirected:
    """A compound command with redirections, or with words that are expanded in front of it."""

    body: Node
    redirects: list[Redirect]
    words: list[Word]


type Node = Simple | Steps | Branch | Negated | Apart | Choice | Loop | Cases | Redirected


@dataclass(slots=True)
class _HereDocument:
    delimiter: str
    quoted: bool
    tabs: bool
    redirect: Redirect


@dataclass(slots=True)
class Places:
    """Where the first reading found tokens, command names and substitutions; the second must find the same."""

    tokens: set[tuple[int, int]] = field(default_factory=set)
    commands: set[tuple[int, int]] = field(default_factory=set)
    substitutions: set[tuple[int, int]] = field(default_factory=set)
    backquotes: set[int] = field(default_factory=set)
    """Where substitutions begin that have one character in front, not two."""
    free: set[tuple[int, int]] = field(default_factory=set)
    """Comments and bodies of here-documents, which hold no tokens."""

    def moved(self, at: Sequence[int]) -> Places:
        """Count in another unit; `at` holds the new place of each old one."""
        return Places(
            tokens={(at[start], at[end]) for start, end in self.tokens},
            commands={(at[start], at[end]) for start, end in self.commands},
            substitutions={(at[start], at[end]) for start, end in self.substitutions},
            backquotes={at[start] for start in self.backquotes},
            free={(at[start], at[end]) for start, end in self.free},
        )


def joined(command: str) -> str:
    r"""Remove every backslash-newline that bash removes, and no other.

    Raises:
        UnclearError: One stands where quoting is nested, so that its meaning would be a guess.
    """
    if "\\\n" not in command:
        return command
    if "<<" in command or "`" in command or "$(" in command or "${" in command:
        raise UnclearError("a line continues next to a here-document or a substitution")
    out: list[str] = []
    index, quote, between = 0, "", True
    while index < len(command):
        piece = command[index : index + 2]
        if piece == "\\\n" and quote != "'":
            if quote == "$":
                raise UnclearError("a line continues inside a quoted text")
            index += 2
            continue
        if quote == "'" or not (piece[0] == "\\" or (piece == "$'" and not quote)):
            piece = piece[0]
        if quote:
            quote = "" if piece == ("'" if quote == "$" else quote) else quote
        elif piece == "#" and between:
            piece = command[index:].partition("\n")[0]
        elif piece[-1] in {"'", '"'} and piece[0] != "\\":
            quote = piece[0]
        between = not quote and piece in _BETWEEN
        out.append(piece)
        index += len(piece)
    return "".join(out)


class Reader:
    """A recursive-descent reader over one text."""

    def __init__(self, text: str) -> None:
        """Start at the beginning of `text`, which has no line continuations left."""
        self._text = text
        self._at = 0
        self._depth = 0
        self._ticks = False
        self._pending: list[_HereDocument] = []
        self.places = Places()

    def read(self) -> Node:
        """Read the whole text.

        Raises:
            UnclearError: Any part is outside the grammar.
        """
        node = self._list(frozenset())
        if self._at < len(self._text) or self._pending:
            raise UnclearError("the command does not end where it should")
        return node

    # Tokens

    def _skip(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] in _BLANK:
                self._at += 1
            elif text[self._at] == "#":  # only ever asked between words
                end = text.find("\n", self._at)
                stop = len(text) if end < 0 else end
                if self._ticks and "`" in text[self._at : stop]:
                    raise UnclearError("a comment ends inside backquotes")
                self.places.free.add((self._at, stop))
                self._at = stop
            else:
                return

    def _peek(self) -> str:
        """Name the next token: an operator, ``word`` or, at the end, nothing."""
        self._skip()
        if self._at >= len(self._text):
            return ""
        if self._ticks and self._text[self._at] == "`":
            return "`"
        if self._text.startswith(("<(", ">("), self._at):
            return "word"
        match = _OPERATOR.match(self._text, self._at)
        return match[0] if match else "word"

    def _take(self, operator: str) -> None:
        if self._peek() != operator:
            raise UnclearError("an operator is missing")
        self._at += len(operator)
        if operator == "\n":
            self._bodies()
        else:
            self.places.tokens.add((self._at - len(operator), self._at))

    def _reserved(self) -> str | None:
        """Return the next word if it could be a reserved one, without taking it."""
        if self._peek() != "word":
            return None
        match = _RESERVED.match(self._text, self._at)
        if match is None:
            return None
        end = match.end()
        if (
            end < len(self._text)
            and self._text[end] not in " \t\n;&|()<>"
            and not (self._ticks and self._text[end] == "`")
        ):
            return None
        return match[0]

    def _keyword(self, word: str) -> None:
        if self._reserved() != word:
            raise UnclearError("a reserved word is missing")
        self.places.tokens.add((self._at, self._at + len(word)))
        self._at += len(word)

    def _lines(self) -> None:
        while self._peek() == "\n":
            self._take("\n")

    # Words

    def _word(self) -> Word:
        """Read one word."""
        text, start = self._text, self._at
        units: list[Unit] = []
        inner: list[Node] = []
        bare = True
        while self._at < len(text):
            character = text[self._at]
            plain = _PLAIN.match(text, self._at)
            if plain:
                units.extend((one, False) for one in plain[0])
                self._at = plain.end()
            elif character in " \t\n;&|)" or (self._ticks and character == "`"):
                break
            elif character in "<>":
                if text[self._at + 1 : self._at + 2] != "(":
                    break
                if self._at != start:
                    raise UnclearError("a process substitution inside a word")
                self._substitution(units, inner, 2, splits=False)
                bare = False
            elif character == "(":
                raise UnclearError("an opening parenthesis inside a word")
            else:
                bare = self._piece(units, inner) and bare
        if self._at == start:
            raise UnclearError("a word is missing")
        self.places.tokens.add((start, self._at))
        return Word(start, self._at, units, inner, text[start : self._at] if bare else None)

    def _piece(self, units: list[Unit], inner: list[Node]) -> bool:
        """Read a quote, an expansion or one more character; return whether it stands for itself."""
        text, character = self._text, self._text[self._at]
        if character == "\\":
            if self._at + 1 >= len(text):
                raise UnclearError("a backslash ends the command")
            units.append((text[self._at + 1], True))
            self._at += 2
        elif character == "'":
            self._single(units)
        elif character == '"':
            self._double(units, inner)
        elif character == "$":
            return self._dollar(units, inner, quoted=False)
        elif character == "`":
            self._backquotes(units, inner, quoted=False)
        else:
            if character == "!" and _HISTORY.match(text, self._at):
                raise UnclearError("an interactive shell would replace this from its history")
            units.append((character, False))
            self._at += 1
            return True
        return False

    def _single(self, units: list[Unit]) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise UnclearError("a quote is not closed")
        units.extend((one, True) for one in self._text[self._at + 1 : end])
        if end == self._at + 1:
            units.append(("", True))
        self._at = end + 1

    def _double(self, units: list[Unit], inner: list[Node]) -> None:
        text = self._text
        units.append(("", True))  # "" is an argument, nothing is none
        self._at += 1
        while True:
            if self._at >= len(text):
                raise UnclearError("a quote is not closed")
            character = text[self._at]
            if character == '"':
                self._at += 1
                return
            self._inside(units, inner)

    def _inside(self, units: list[Unit], inner: list[Node]) -> None:
        """Read one step of a double-quoted text or of a here-document."""
        text, character = self._text, self._text[self._at]
        if character == "\\" and text[self._at + 1 : self._at + 2] in {"$", "`", '"', "\\"}:
            units.append((text[self._at + 1], True))
            self._at += 2
        elif character == "$":
            self._dollar(units, inner, quoted=True)
        elif character == "`":
            if self._ticks:
                raise UnclearError("backquotes inside backquotes")
            self._backquotes(units, inner, quoted=True)
        elif character == "!" and _HISTORY.match(text, self._at):
            raise UnclearError("an interactive shell would replace this from its history")
        else:
            units.append((character, True))
            self._at += 1

    def _dollar(self, units: list[Unit], inner: list[Node], *, quoted: bool) -> bool:
        """Read what begins with a dollar; return whether it was only a dollar sign."""
        text = self._text
        following = text[self._at + 1 : self._at + 2]
        if following == "'" and not quoted:
            end = _ANSI_QUOTED.match(text, self._at + 2)
            if end is None:
                raise UnclearError("a quote is not closed")
            units.append(("", True))
            units.extend((one, True) for one in ansi_text(end[0][:-1]))
            self._at = end.end()
            return False
        total = _SUM.match(text, self._at)
        if total:
            units.append(Hole(splits=not quoted))
            self._at = total.end()
            return False
        if following == "(":
            self._substitution(units, inner, 2, splits=not quoted)
            return False
        parameter = _PARAMETER.match(text, self._at)
        if parameter:
            units.append(Hole(splits=not quoted or "@" in parameter[0]))
            self._at = parameter.end()
            return False
        if following in {"{", "[", '"'} and not (quoted and following == '"'):
            raise UnclearError("an expansion that may run or assign something")
        units.append(("$", quoted))
        self._at += 1
        return True

    def _substitution(self, units: list[Unit], inner: list[Node], opening: int, *, splits: bool) -> None:
        start = self._at
        if self._text.startswith("((", start + 1):
            raise UnclearError("arithmetic with names")
        self._at += opening
        ticks, self._ticks = self._ticks, False
        pending, self._pending = self._pending, []
        if ticks:
            raise UnclearError("a substitution inside backquotes")
        inner.append(self._list(frozenset({")"})))
        if self._peek() != ")" or self._pending:
            raise UnclearError("a substitution is not closed")
        self._at += 1
        self._ticks, self._pending = ticks, pending
        self.places.substitutions.add((start, self._at))
        units.append(Hole(splits=splits))

    def _backquotes(self, units: list[Unit], inner: list[Node], *, quoted: bool) -> None:
        start = self._at
        end = self._text.find("`", start + 1)
        if end < 0 or "\\" in self._text[start:end] or (quoted and '"' in self._text[start:end]):
            raise UnclearError("backquotes that are not closed or hold backslashes")
        self._at += 1
        self._ticks = True
        pending, self._pending = self._pending, []
        inner.append(self._list(frozenset({"`"})))
        if self._peek() != "`" or self._at != end or self._pending:
            raise UnclearError("backquotes are not closed")
        self._at += 1
        self._ticks, self._pending = False, pending
        self.places.substitutions.add((start, self._at))
        self.places.backquotes.add(start)
        units.append(Hole(splits=not quoted))

    def _bodies(self) -> None:
        """Read the bodies of the here-documents that were announced on the line just ended."""
        text = self._text
        for document in self._pending:
            start = self._at
            while True:
                if self._at >= len(text):
                    raise UnclearError("a here-document is not closed")
                end = text.find("\n", self._at)
                end = len(text) if end < 0 else end
                line = text[self._at : end]
                if (line.lstrip("\t") if document.tabs else line) == document.delimiter:
                    break
                if document.quoted:
                    self._at = end + 1
                else:
                    self._body_line(document, end)
            self.places.free.add((start, end))
            self._at = min(end + 1, len(text))
        self._pending = []

    def _body_line(self, document: _HereDocument, end: int) -> None:
        units: list[Unit] = []
        while self._at < end:
            self._inside(units, document.redirect.inner)
        if self._at != end:
            raise UnclearError("a substitution leaves its line of a here-document")
        self._at = end + 1

    # Commands

    def _list(self, closers: frozenset[str]) -> Node:
        """Read commands until a closer: an operator, or a reserved word of `_FOLLOWERS`."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise UnclearError("the command is nested too deeply")
        parts: list[Node] = []
        while True:
            self._lines()
            ahead = self._peek()
            if ahead == "" or ahead in closers or (ahead == "word" and self._reserved() in _FOLLOWERS):
                break
            part = self._and_or()
            ahead = self._peek()
            if ahead == "&":
                self._take("&")
                part = Apart([part])
            elif ahead == ";":
                self._take(";")
            elif ahead not in {"\n", "", *closers}:
                raise UnclearError("something follows a command that cannot")
            parts.append(part)
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Steps(parts)

    def _and_or(self) -> Node:
        left = self._pipeline()
        length = 1
        while (operator := self._peek()) in {"&&", "||"}:
            self._take(operator)
            self._lines()
            length += 1
            if length > MAX_CHAIN:
                raise UnclearError("too many commands depend on each other")
            left = Branch(left, self._pipeline(), on_success=operator == "&&")
        return left

    def _pipeline(self) -> Node:
        negated = False
        while self._reserved() == "!":
            self._keyword("!")
            negated = not negated
        parts = [self._command()]
        while (operator := self._peek()) in {"|", "|&"}:
            self._take(operator)
            self._lines()
            parts.append(self._command())
        node = parts[0] if len(parts) == 1 else Apart(parts, last_here=True)
        return Negated(node) if negated else node

    def _command(self) -> Node:
        ahead = self._peek()
        word = self._reserved()
        words: list[Word] = []
        if ahead == "(":
            if self._text.startswith("((", self._at):
                raise UnclearError("arithmetic with names")
            self._take("(")
            body: Node = Apart([self._body(frozenset({")"}))])
            self._take(")")
        elif word == "{":
            body = self._between("{", "}")
        elif word == "if":
            body = self._if()
        elif word in {"while", "until"}:
            self._keyword(word)
            test = self._body()
            body = Loop(test, self._between("do", "done"))
        elif word == "for":
            body, words = self._for()
        elif word == "case":
            body, words = self._case()
        else:
            return self._simple()
        redirects: list[Redirect] = []
        while self._at_redirect():
            redirects.append(self._redirect())
        return Redirected(body, redirects, words)

    def _body(self, closers: frozenset[str] = frozenset()) -> Node:
        node = self._list(closers)
        if isinstance(node, Steps) and not node.parts:
            raise UnclearError("a command is missing")
        return node

    def _between(self, opening: str, closing: str) -> Node:
        self._keyword(opening)
        body = self._body()
        self._keyword(closing)
        return body

    def _if(self) -> Node:
        arms: list[tuple[Node, Node]] = []
        otherwise = None
        self._keyword("if")
        while True:
            test = self._body()
            self._keyword("then")
            arms.append((test, self._body()))
            word = self._reserved()
            if word == "elif":
                self._keyword("elif")
                continue
            if word == "else":
                self._keyword("else")
                otherwise = self._body()
            self._keyword("fi")
            return Choice(arms, otherwise)

    def _for(self) -> tuple[Node, list[Word]]:
        self._keyword("for")
        self._skip()
        name = self._word()
        if name.bare is None:
            raise UnclearError("a loop over no plain name")
        words: list[Word] = []
        if self._reserved() == "in":
            self._keyword("in")
            while self._peek() == "word":
                words.append(self._word())
        if self._peek() == ";":
            self._take(";")
        self._lines()
        return Loop(None, self._between("do", "done"), name.bare), words

    def _case(self) -> tuple[Node, list[Word]]:
        self._keyword("case")
        self._skip()
        words = [self._word()]
        self._lines()
        self._keyword("in")
        self._lines()
        bodies: list[Node] = []
        while self._reserved() != "esac":
            self._skip()
            words.append(self._word())
            while self._peek() == "|":
                self._take("|")
                self._skip()
                words.append(self._word())
            self._take(")")
            bodies.append(self._list(frozenset({";;", ";&", ";;&"})))
            if self._peek() in {";;", ";&", ";;&"}:
                self._take(self._peek())
            elif self._reserved() != "esac":
                raise UnclearError("a case is not closed")
            self._lines()
        self._keyword("esac")
        return Cases(bodies), words

    def _simple(self) -> Node:
        command = Simple([], [], [])
        opening = self._reserved()
        if opening in _REFUSED:
            raise UnclearError("a reserved word where none can be read")
        if opening == "[[":
            return self._double_brackets()
        while True:
            if self._at_redirect():
                command.redirects.append(self._redirect())
            elif self._peek() != "word":
                break
            else:
                if _DESCRIPTOR.match(self._text, self._at):
                    raise UnclearError("a redirection that assigns a variable")
                word = self._word()
                if not command.words and _ASSIGNMENT.match(self._text[word.start : word.end]):
                    if self._peek() == "(" and self._text[self._at - 1] == "=":
                        raise UnclearError("an array")
                    command.assignments.append(word)
                    continue
                if not command.words:
                    self.places.commands.add((word.start, word.end))
                command.words.append(word)
        if self._peek() == "(":
            raise UnclearError("a function or an array")
        if not (command.words or command.assignments or command.redirects):
            raise UnclearError("a command is missing")
        return command

    def _double_brackets(self) -> Node:
        """Read ``[[ ... ]]`` with words, ``&&`` and ``||`` only."""
        self._keyword("[[")
        words: list[Word] = []
        while True:
            ahead = self._peek()
            if ahead in {"&&", "||"}:
                self._take(ahead)
            elif ahead == "word":
                word = self._word()
                if word.bare == "]]":
                    break
                if word.bare is not None and word.bare in _EVALUATE:
                    raise UnclearError("a test that may evaluate what it compares")
                words.append(word)
            else:
                raise UnclearError("a test that is not closed or not simple")
        redirects: list[Redirect] = []
        while self._at_redirect():
            redirects.append(self._redirect())
        return Simple([], words, redirects, test=True)

    # Redirections

    def _at_redirect(self) -> bool:
        ahead = self._peek()
        if ahead in _REDIRECTS:
            return True
        return ahead == "word" and _NUMBERED.match(self._text, self._at) is not None

    def _redirect(self) -> Redirect:
        digits = _NUMBERED.match(self._text, self._at)
        if digits:
            self.places.tokens.add((self._at, digits.end()))
            self._at = digits.end()
        operator = self._peek()
        self._take(operator)
        if self._peek() != "word":
            raise UnclearError("a redirection without a target")
        target = self._word()
        if operator not in {"<<", "<<-"}:
            return Redirect(operator, target)
        if any(isinstance(unit, Hole) for unit in target.units):
            raise UnclearError("a here-document whose end is not a plain word")
        redirect = Redirect(operator, None)
        delimiter = "".join(unit[0] for unit in target.units if not isinstance(unit, Hole))
        self._pending.append(_HereDocument(delimiter, target.bare is None, operator == "<<-", redirect))
        return redirect


_EVALUATE: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "=~"})
"""Operators of ``[[`` that read a text as arithmetic or as a subscript, either of which can run a command."""
