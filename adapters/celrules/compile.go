package celrules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types/ref"

	"github.com/dlqbridge/dlqbridge"
)

// value is CEL's word for a result.
type value = ref.Val

func newEnv() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.ParserExpressionSizeLimit(maxRule), cel.ParserRecursionLimit(64),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateComprehensionNestingLimit(2)),
	}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.kind))
	}
	return cel.NewEnv(options...)
}

// compile makes one rule ready and says whether it looks at attributes.
func compile(env *cel.Env, r Rule) (c compiled, attributes bool, err error) {
	switch {
	case !r.Cause.Valid():
		return compiled{}, false, fmt.Errorf("cause %q is none; the causes are %s", r.Cause, causes())
	case strings.TrimSpace(r.When) == "":
		return compiled{}, false, errors.New(`when is empty; write a predicate such as failure.code == "E17"`)
	case !utf8.ValidString(r.When):
		return compiled{}, false, errors.New("when is not valid UTF-8")
	case utf8.RuneCountInString(r.When) > maxRule:
		return compiled{}, false, fmt.Errorf("when is longer than %d characters", maxRule)
	}
	checked, issues := env.Compile(r.When)
	if issues != nil && issues.Err() != nil {
		return compiled{}, false, malformed(r.When, issues)
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		return compiled{}, false, fmt.Errorf("line 1:1: the expression is %s and not true or false; compare it with something", checked.OutputType())
	}
	root := ast.NavigateAST(checked.NativeRep())
	if err := literalPatterns(checked, root); err != nil {
		return compiled{}, false, err
	}
	program, err := env.Program(checked, cel.CostLimit(CostLimit), cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(64))
	if err != nil {
		return compiled{}, false, fmt.Errorf("line 1:1: %w", err)
	}
	uses := ast.MatchDescendants(root, func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.IdentKind && e.AsIdent() == attributesName
	})
	loops := ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))
	return compiled{Rule: r, program: program, loops: len(loops) > 0, counts: &counts{}}, len(uses) > 0, nil
}

// literalPatterns refuses a regular expression that comes from the failure.
func literalPatterns(checked *cel.Ast, root ast.NavigableExpr) error {
	for _, e := range ast.MatchDescendants(root, ast.FunctionMatcher(overloads.Matches)) {
		args := e.AsCall().Args()
		if len(args) == 0 || args[len(args)-1].Kind() == ast.LiteralKind {
			continue
		}
		at := checked.NativeRep().SourceInfo().GetStartLocation(args[len(args)-1].ID())
		return fmt.Errorf("line %d:%d: the pattern of matches is computed; write it as a text, since whoever wrote the failure must not choose it",
			at.Line(), at.Column()+1)
	}
	return nil
}

// maxIssues of one rule are shown: the first one is mostly the reason for the rest.
const maxIssues = 3

// malformed puts the compiler's findings into one error.
func malformed(when string, issues *cel.Issues) error {
	var out []string
	for _, e := range issues.Errors() {
		if len(out) == maxIssues {
			break
		}
		text := fmt.Sprintf("line %d:%d: %s", max(e.Location.Line(), 1), max(e.Location.Column(), 0)+1, strings.TrimSpace(e.Message))
		if h := hint(when, e.Message); h != "" {
			text += "; " + h
		}
		out = append(out, text)
		if strings.Contains(e.Message, "Syntax error") {
			break // those behind it follow from it
		}
	}
	return errors.New(strings.Join(out, "; "))
}

// hint says what to do about a compiler's message, where that can be guessed.
func hint(when, message string) string {
	switch {
	case strings.Contains(message, "did you mean"): // the compiler's own hint
	case strings.Contains(message, "undeclared reference to '"):
		return unknownName(when, message)
	case strings.Contains(message, "no matching overload") && strings.Contains(message, "applied to '(string, int)'"),
		strings.Contains(message, "no matching overload") && strings.Contains(message, "applied to '(int, string)'"):
		return `a text and a number never compare; put codes into quotation marks ("429") and leave them off task.attempts`
	case strings.Contains(message, "no matching overload"):
		return "both sides must be of one kind, and functions exist for some kinds only: all fields are texts but task.attempts and task.maxAttempts"
	case strings.Contains(message, "token recognition error at: '="):
		return "compare with =="
	case strings.Contains(message, "token recognition error at: '&"), strings.Contains(message, "input 'and'"):
		return "join predicates with &&"
	case strings.Contains(message, "token recognition error at: '|"), strings.Contains(message, "input 'or'"):
		return "join predicates with ||"
	case strings.HasPrefix(strings.TrimSpace(when), "not ") || strings.Contains(message, "input 'not'"):
		return "negate with !"
	case strings.Contains(message, "token recognition error at: '\"") || strings.Contains(message, "token recognition error at: ''"):
		return "a text has no end: its quotation mark is missing"
	case strings.Contains(message, "error parsing regexp"), strings.Contains(message, "invalid matches argument"):
		return "patterns are RE2: no look-around and no back-references"
	}
	return ""
}

// unknownName suggests the field that was meant.
func unknownName(when, message string) string {
	_, name, _ := strings.Cut(message, "undeclared reference to '")
	name, _, _ = strings.Cut(name, "'")
	switch {
	case strings.Contains(when, name+"("):
		return "the usual functions are startsWith endsWith contains matches size, and there is in"
	case strings.Contains(when, "has("+name+"."):
		return `a field that is unknown is an empty text: compare it with ""`
	}
	var names []string
	for _, v := range variables {
		names = append(names, v.name)
	}
	for word := range strings.FieldsFuncSeq(when, func(r rune) bool {
		return r != '.' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		if slices.Contains(names, word) {
			continue
		}
		_, last, _ := strings.Cut(word, ".")
		for _, n := range names {
			_, known, _ := strings.Cut(n, ".")
			if strings.EqualFold(word, n) || known != "" && (strings.EqualFold(word, known) || strings.EqualFold(last, known)) {
				return fmt.Sprintf("did you mean %s?", n)
			}
		}
	}
	return "the names are " + strings.Join(names, " ")
}

func causes() string {
	var out []string
	for _, c := range dlqbridge.Causes() {
		out = append(out, string(c))
	}
	return strings.Join(out, " ")
}
