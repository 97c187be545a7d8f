package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// YAML is the effective configuration with a remark behind each value that
// says where it came from, secrets hidden. It can be read back.
func (c Config) YAML() []byte {
	var out bytes.Buffer
	w := yaml.NewEncoder(&out)
	w.SetIndent(2)
	err := w.Encode(c.node(reflect.ValueOf(&c).Elem(), ""))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a tree of texts encodes
	}
	return out.Bytes()
}

// MarshalJSON writes the effective configuration with the keys of the file,
// secrets hidden.
func (c Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(plain(reflect.ValueOf(&c).Elem()))
}

func (c Config) node(v reflect.Value, path string) *yaml.Node {
	switch value := plainScalar(v).(type) {
	case nil:
	default:
		n := &yaml.Node{}
		if err := n.Encode(value); err != nil {
			panic(err) // scalars and lists of numbers encode
		}
		n.Style |= yaml.FlowStyle * yaml.Style(btoi(n.Kind == yaml.SequenceNode))
		n.LineComment = c.origins[path].String()
		return n
	}
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
		}
		return c.node(v.Elem(), path)
	case reflect.Struct:
		out := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range fieldsOf(v.Type()) {
			value := v.FieldByIndex(f.index)
			if unset(value) {
				continue
			}
			out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: f.key}, c.node(value, join(path, f.key)))
		}
		return out
	case reflect.Map:
		out := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range mapKeys(v) {
			out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: k.String()}, c.node(entryOf(v, k), join(path, k.String())))
		}
		return out
	default:
		out := &yaml.Node{Kind: yaml.SequenceNode}
		if kind := v.Type().Elem().Kind(); kind == reflect.String || kind == reflect.Int {
			out.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			item := c.node(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			if out.Style == yaml.FlowStyle {
				item.LineComment = ""
			}
			out.Content = append(out.Content, item)
		}
		return out
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// plain is the value as JSON has it.
func plain(v reflect.Value) any {
	if s := plainScalar(v); s != nil {
		return s
	}
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for _, f := range fieldsOf(v.Type()) {
			if value := v.FieldByIndex(f.index); !unset(value) {
				out[f.key] = plain(value)
			}
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range mapKeys(v) {
			out[k.String()] = plain(entryOf(v, k))
		}
		return out
	default:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	}
}

// plainScalar is the value of a scalar as it is written; nil is no scalar.
func plainScalar(v reflect.Value) any {
	switch t := v.Addr().Interface().(type) {
	case *Canary:
		if len(*t) == 0 {
			return "none"
		}
		return []int(*t)
	case text:
		written, err := t.MarshalText()
		if err != nil {
			return ""
		}
		return string(written)
	}
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.String:
		return hideSecret(v.String())
	case reflect.Bool:
		return v.Bool()
	case reflect.Int:
		return int(v.Int())
	case reflect.Float64:
		return v.Float()
	default:
		return nil
	}
}

// unset fields are left out: an empty text, a window that was not declared.
func unset(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case *Canary, *Observe:
		return false
	}
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.Bool, reflect.Int:
		return false
	default:
		return v.IsZero()
	}
}

// hideSecret hides what a URL may carry for its owner alone: a password, and
// the values of its query.
func hideSecret(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return s
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "hidden")
	}
	if q := u.Query(); len(q) > 0 {
		for k := range q {
			q.Set(k, "hidden")
		}
		u.RawQuery = q.Encode()
	}
	return u.String()
}

func mapKeys(v reflect.Value) []reflect.Value {
	byName := map[string]reflect.Value{}
	for _, k := range v.MapKeys() {
		byName[k.String()] = k
	}
	var out []reflect.Value
	if known := knownKeys(v.Type().Key()); known != nil { // the order of dlqbridge.Causes
		for _, k := range known {
			if key, ok := byName[k]; ok {
				out = append(out, key)
			}
		}
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// entryOf is an addressable copy of a map's entry.
func entryOf(v, k reflect.Value) reflect.Value {
	out := reflect.New(v.Type().Elem()).Elem()
	out.Set(v.MapIndex(k))
	return out
}
