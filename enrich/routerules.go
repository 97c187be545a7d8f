package enrich

import "github.com/dlqbridge/dlqbridge"

// CompileExpression compiles one expression that finds a value in a JSON text.
// Its error is for the person who wrote the configuration: position and hint.
// The function it returns may be called concurrently and gets valid JSON; it
// returns the value as text, numbers with the digits they were written with,
// and false where there is none. It keeps nothing and never panics.
type CompileExpression = func(expression string) (func(json []byte) (value string, ok bool), error)

// Rules are a route's own rules for the cause of a failure. Calls may be
// concurrent and arguments are not kept.
type Rules interface {
	// Classify names the cause by the first rule that matches, with that rule's
	// name; an empty cause is none. Task and failure are joined from letter and
	// stores, findings are all that will be folded. With an error (a value of an
	// unexpected kind, a limit of cost) the built-in rules decide, and the
	// record says that the route's own could not.
	Classify(letter dlqbridge.Arrival, task dlqbridge.Task, failure dlqbridge.Failure, findings []dlqbridge.Finding) (cause dlqbridge.Cause, rule string, err error)
}
