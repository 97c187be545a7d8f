// Package jsonpatch changes a JSON body by a typed patch: a JSON Patch (RFC
// 6902, a list of operations) or a merge patch (RFC 7386, an object).
//
// # What survives
//
// What a patch does not touch keeps its value, its digits and its place: no
// number is read as a float, and members keep their order. White space between
// values goes, and so does an escape in the name of a member beside one that is
// changed.
//
// # What is refused
//
// A body is left alone that is not one JSON object or list in UTF-8, that names
// a member twice (which of the two counts is not certain), or whose names hold
// half of a character. Errors name operations and pointers, never values.
package jsonpatch
