// Package jsonpatch changes a JSON body by a typed patch: a JSON Patch (RFC
// 6902, a list of operations) or a merge patch (RFC 7386, an object).
//
// # What survives
//
// What a patch does not touch keeps its bytes and its place: numbers their
// digits, texts their escapes (half of a character too), a name that stands
// twice both its values, and all of it its white space. A body is opened only
// where an operation goes through it; the rest is copied. What is put in is
// written as it stands in the patch, without white space.
//
// # What is refused
//
// A body is left alone that is not one JSON object or list in UTF-8, or in
// which a name on the way to what is changed or tested stands twice: which of
// the two counts is not certain. So is all of them by a patch that names a
// member twice or holds half of a character, which would become another one.
// Errors name operations and pointers, never values.
package jsonpatch
