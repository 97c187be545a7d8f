package jmespathsel

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// maxExpression is longer than anybody wants to read, and bounds how deep the
// parser goes.
const maxExpression = 2048

// parse reads an expression.
func parse(expression string) (root parsing.ASTNode, err error) {
	switch {
	case strings.TrimSpace(expression) == "":
		return root, errors.New("the expression is empty; write a path such as order.id")
	case len(expression) > maxExpression:
		return root, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	case !utf8.ValidString(expression):
		return root, errors.New("the expression is not valid UTF-8")
	}
	defer func() {
		if recover() != nil { // the parser looks past the end of some texts
			err = errors.New("the expression ends too early or is not JMESPath")
		}
	}()
	root, err = parsing.NewParser().Parse(expression)
	if e, ok := errors.AsType[parsing.SyntaxError](err); ok {
		message := strings.TrimPrefix(e.Error(), "SyntaxError: ")
		return root, fmt.Errorf("position %d: %s%s", min(max(e.Offset, 0), len(expression))+1, message, hint(expression, message))
	}
	if err != nil {
		return root, fmt.Errorf("position 1: %w", err)
	}
	return root, nil
}

var dashedName = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*-[A-Za-z_]`)

var bareNumber = regexp.MustCompile(`(?:[=<>]=?|!=)\s*-?\d`)

func hint(expression, message string) string {
	switch {
	case strings.HasPrefix(strings.TrimSpace(expression), "/"):
		return "; that is a JSON pointer: write body: instead of jmespath:"
	case bareNumber.MatchString(expression):
		return "; numbers stand in backticks: `5`"
	case strings.Contains(message, "Unclosed delimiter: '"), strings.Contains(message, "Unclosed delimiter: `"), strings.Contains(message, "Unclosed delimiter: \""):
		return "; its end is missing"
	case strings.HasPrefix(expression, "$."):
		return "; that is JSONPath: leave the $. out"
	case dashedName.MatchString(expression):
		return `; a name with a dash stands in quotation marks: "x-id"`
	}
	return ""
}

// check walks the expression for what may not be in it.
func check(expression string, node parsing.ASTNode, computes *bool) error {
	switch node.NodeType {
	case parsing.ASTValueProjection:
		return at(expression, `\*`, "a wildcard over an object's members has no order; name the member, or use [*] on a list")
	case parsing.ASTRootNode:
		return at(expression, `\$`, "the root $ is not allowed; leave \"$.\" out at the beginning, and compare with a text or number elsewhere")
	case parsing.ASTLetExpression, parsing.ASTVariable, parsing.ASTBindings, parsing.ASTBinding:
		return at(expression, `\blet\b|\$`, "let is not allowed; join steps with |")
	case parsing.ASTArithmeticExpression, parsing.ASTArithmeticUnaryExpression:
		*computes = true
		if node.Value == parsing.TOKMinus && dashedName.MatchString(expression) { // it would be null on every body
			return at(expression, dashedName.String(), `a name with a dash stands in quotation marks: "x-id"; a minus has blanks around it`)
		}
	case parsing.ASTFunctionExpression:
		*computes = true
		if err := checkFunction(expression, node); err != nil {
			return err
		}
	case parsing.ASTLiteral:
		if !exactLiteral(node.Value) {
			return at(expression, "`[^`]*[0-9]{16}|`", "a number of more than 15 digits cannot be compared; compare texts: to_string(id) == '12345678901234567890'")
		}
	case parsing.ASTSlice:
		if parts, ok := node.Value.([]*int); ok && len(parts) == 3 && parts[2] != nil && *parts[2] == 0 {
			return at(expression, `:0`, "a slice cannot step by 0")
		}
	}
	for _, child := range node.Children {
		if err := check(expression, child, computes); err != nil {
			return err
		}
	}
	return nil
}

func checkFunction(expression string, node parsing.ASTNode) error {
	name, _ := node.Value.(string)
	where := `\b` + regexp.QuoteMeta(name) + `\s*\(`
	spec, ok := allowed[name]
	switch {
	case !ok:
		return at(expression, where, fmt.Sprintf("the function %s is not known here; there are %s", name, allowedNames()))
	case len(node.Children) < spec.least || len(node.Children) > spec.most:
		return at(expression, where, fmt.Sprintf("the function %s takes %s", name, spec.count()))
	case name == "join" && node.Children[0].NodeType != parsing.ASTLiteral:
		return at(expression, where, "what join puts in between must be a text in the expression: ','")
	}
	return nil
}

// exactLiteral says whether the numbers of a literal are held exactly.
func exactLiteral(v any) bool {
	switch v := v.(type) {
	case float64:
		return plain(strconv.FormatFloat(v, 'e', -1, 64))
	case json.Number:
		return false
	case []any:
		for _, e := range v {
			if !exactLiteral(e) {
				return false
			}
		}
	case map[string]any:
		for _, e := range v {
			if !exactLiteral(e) {
				return false
			}
		}
	}
	return true
}

// at puts the position of the first match of a pattern before a message; the
// library keeps none in its tree.
func at(expression, pattern, message string) error {
	position := 1
	if m := regexp.MustCompile(pattern).FindStringIndex(expression); m != nil {
		position = m[0] + 1
	}
	return fmt.Errorf("position %d: %s", position, message)
}
