package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// field is one key of a struct of this package.
type field struct {
	key      string
	doc      string
	pattern  string
	required bool
	index    []int
	kind     reflect.Type
}

// fieldsOf reads the tags of a struct, in its order.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		if key == "-" || key == "" {
			continue
		}
		one := field{key: key, doc: f.Tag.Get("doc"), pattern: f.Tag.Get("pattern"), required: f.Tag.Get("required") == "true", index: f.Index, kind: f.Type}
		out = append(out, one)
	}
	return out
}

func keysOf(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.key
	}
	return out
}

// knownKeys lists the closed set of a map's keys; nil is an open one.
func knownKeys(t reflect.Type) []string {
	if t != reflect.TypeFor[dlqbridge.Cause]() {
		return nil
	}
	return knownCauses()
}

// leaf is one scalar outside lists and maps: what environment and flags can set.
type leaf struct {
	path  string
	value reflect.Value
	// made sees to it that what it is a part of is there; nil where it always is.
	made func()
}

// blank is a pointer to a value as it is where the file says nothing of it.
func blank(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if h, ok := reflect.TypeAssert[*Hours](v); ok {
		*h = defaultHours()
	}
	return v
}

// leaves lists them in the order of the structs.
func leaves(v reflect.Value, path string) []leaf {
	var out []leaf
	for _, f := range fieldsOf(v.Type()) {
		value, full := v.FieldByIndex(f.index), join(path, f.key)
		_, canary := reflect.TypeAssert[*Canary](value.Addr())
		switch {
		case canary, isText(value):
			out = append(out, leaf{path: full, value: value})
		case value.Kind() == reflect.Struct:
			out = append(out, leaves(value, full)...)
		case value.Kind() == reflect.Pointer:
			part := value
			if value.IsNil() {
				part = blank(value.Type().Elem())
			}
			for _, l := range leaves(part.Elem(), full) {
				l.made = func() { value.Set(part) }
				out = append(out, l)
			}
		case value.Kind() != reflect.Slice && value.Kind() != reflect.Map:
			out = append(out, leaf{path: full, value: value})
		}
	}
	return out
}

// variable is the name in the environment of a path.
func variable(path string) string {
	return "DLQBRIDGE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Variables lists the names in the environment that are read, with their paths.
func Variables() [][2]string {
	c := Default()
	out := [][2]string{{FileVariable, ""}}
	for _, l := range leaves(reflect.ValueOf(&c).Elem(), "") {
		out = append(out, [2]string{variable(l.path), l.path})
	}
	return out
}

// overlay puts environment and flags over the file.
func (d *decoder) overlay(c *Config, s Source) {
	set := func(l leaf, value string, from origin) {
		d.origins[l.path] = from
		if l.made != nil {
			l.made()
		}
		var err error
		if canary, ok := reflect.TypeAssert[*Canary](l.value.Addr()); ok {
			err = canary.set(value)
		} else {
			err = setScalar(l.value, value)
		}
		if err != nil {
			hint := ""
			if r, ok := errors.AsType[*refusal](err); ok {
				hint = r.hint
			}
			d.reportAt(l.path, err.Error(), hint)
		}
	}
	for _, l := range leaves(reflect.ValueOf(c).Elem(), "") {
		if value, ok := s.Env(variable(l.path)); ok && value != "" {
			set(l, value, origin{variable: variable(l.path)})
		}
		if value, ok := s.Flags[l.path]; ok {
			name := s.FlagNames[l.path]
			if name == "" {
				name = "--" + strings.ReplaceAll(l.path[strings.LastIndex(l.path, ".")+1:], "_", "-")
			}
			set(l, value, origin{flag: name})
		}
	}
}

// later are keys that people may expect and this version does not do.
var later = map[string]map[string]string{
	"": {
		"mutes": "mutes are not in this version",
	},
	"payloads": {
		"vault": "a vault is not in this version: payloads are kept in the payload table",
	},
	"routes[]": {
		"fan_out":     "fan-out is a matter of Pub/Sub: write it inside pubsub",
		"observe_for": "the observation window is one for all routes: redrive.observe_for",
	},
	"redrive": {
		"probe": "a probe belongs to a route: routes[].probe",
	},
}

// refusedKey says the sentence for a key that belongs to a later version.
func refusedKey(path, key string) (string, bool) {
	form := path
	if before, _, ok0 := strings.Cut(path, "["); ok0 {
		form = before + "[]" + path[slices.Index([]byte(path), ']')+1:]
	}
	sentence, ok := later[form][key]
	return sentence, ok
}
