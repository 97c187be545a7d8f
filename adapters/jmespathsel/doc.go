// Package jmespathsel selects one text or number from a JSON body by a JMESPath
// expression (https://jmespath.site), for values that no pointer reaches:
// out of a list by a condition, or out of JSON within a text.
//
// # What is exact
//
// A number comes out with the digits it was written with. Those that a float
// holds exactly (15 significant digits) can be compared and computed with; a
// longer one, such as a big id, can be selected and turned into a text, and
// compares equal to no number, so it is never taken for its neighbour.
//
// # What is left out
//
// An answer may not depend on chance or take long because a sender wants it to.
// So there is no wildcard over an object's members and no keys, values, items:
// their order differs from run to run. There is no root ($) and no let, with
// which work grows with the square of a body, and no function whose result can
// be far larger than the body. Each is an error at the start with a hint.
//
// The functions powertools_json and powertools_base64 are there, as in AWS
// Lambda Powertools.
//
// # Limits
//
// An expression has at most 2,048 bytes; a body at most 1 MiB, 500 levels and
// 200,000 values. A body beyond that, or that is not JSON, has no values.
package jmespathsel
