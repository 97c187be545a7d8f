package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// place is where in the file a field stands.
type place struct{ line, column int }

// origin says where a value came from; the zero value is the default.
type origin struct {
	line     int    // in the file
	variable string // of the environment
	flag     string
}

// String is the remark behind the value in `dlqbridge config`.
func (o origin) String() string {
	switch {
	case o.flag != "":
		return "flag " + o.flag
	case o.variable != "":
		return "environment " + o.variable
	case o.line > 0:
		return "line " + strconv.Itoa(o.line)
	}
	return "default"
}

// decoder reads a YAML tree into the structs of this package, which are also
// what the schema is made of, and collects problems instead of stopping.
type decoder struct {
	file     string
	origins  map[string]origin
	at       map[string]place
	problems Problems
}

func (d *decoder) report(line int, field, text, hint string) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Field: field, Text: text, Hint: hint})
}

// reportAt reports a problem of a field by its path, at its own place or, if
// it was not written, at that of the nearest thing around it.
func (d *decoder) reportAt(field, text, hint string) {
	if d.reported(field) {
		return // what could not be read needs no second complaint
	}
	if o := d.origins[field]; o.flag != "" || o.variable != "" {
		d.problems = append(d.problems, Problem{Field: field, Text: o.String() + ": " + text, Hint: hint})
		return
	}
	for path := field; ; {
		if p, ok := d.at[path]; ok {
			d.report(p.line, field, text, hint)
			return
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			break
		}
		path = path[:cut]
	}
	line := 0
	if d.file != "" {
		line = 1
	}
	d.report(line, field, text, hint)
}

// document reads the one document of the file.
func (d *decoder) document(source []byte, into *Config) {
	stream := yaml.NewDecoder(bytes.NewReader(source))
	var doc, second yaml.Node
	err := stream.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return // an empty file says nothing, which is fine
	case err != nil:
		line, message := yamlError(err)
		d.report(line, "", message, "")
		return
	}
	if !errors.Is(stream.Decode(&second), io.EOF) {
		d.report(max(second.Line, 1), "", "a second document", "keep one document in the file")
	}
	if len(doc.Content) == 1 {
		d.value(doc.Content[0], reflect.ValueOf(into).Elem(), "")
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// yamlError takes the line out of the parser's message.
func yamlError(err error) (int, string) {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 1, err.Error()
	}
	line, _ := strconv.Atoi(m[1]) // 0 if it names none
	return max(line, 1), "not YAML: " + m[2]
}

// value reads one node into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.at[path] = place{n.Line, n.Column}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // "key:" says nothing
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(blank(v.Type().Elem()))
		}
		v = v.Elem()
	}
	switch canary, isCanary := reflect.TypeAssert[*Canary](v.Addr()); {
	case isCanary:
		d.canary(n, canary, path)
	case isText(v) || v.Kind() != reflect.Struct && v.Kind() != reflect.Map && v.Kind() != reflect.Slice:
		d.scalar(n, v, path)
	case v.Kind() == reflect.Struct:
		d.structure(n, v, path)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, path)
	default:
		d.list(n, v, path)
	}
}

func isText(v reflect.Value) bool {
	_, ok := reflect.TypeAssert[text](v.Addr())
	return ok
}

// pairs yields the keys of a mapping, each once.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.report(n.Line, path, "here must be keys with values, not "+describe(n), "")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch line, twice := seen[key.Value]; {
		case key.Tag == "!!merge":
			d.report(key.Line, path, "merge keys (<<) are not supported", "write the keys out")
		case twice:
			d.report(key.Line, join(path, key.Value), fmt.Sprintf("given twice, first on line %d", line), "keep one of them")
		default:
			seen[key.Value] = key.Line
			each(key, value)
		}
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	d.pairs(n, path, func(key, value *yaml.Node) {
		full := join(path, key.Value)
		if sentence, refused := refusedKey(path, key.Value); refused {
			d.report(key.Line, full, sentence, "")
			return
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		if i < 0 {
			d.report(key.Line, full, "unknown key", Suggestion(key.Value, keysOf(fields)))
			return
		}
		d.value(value, v.FieldByIndex(fields[i].index), full)
		if _, marked := d.origins[full]; !marked {
			d.origins[full] = origin{line: key.Line}
		}
	})
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	known := knownKeys(v.Type().Key())
	d.pairs(n, path, func(key, value *yaml.Node) {
		full := join(path, key.Value)
		if known != nil && !slices.Contains(known, key.Value) {
			d.report(key.Line, full, fmt.Sprintf("%q is no cause", key.Value), Suggestion(key.Value, known))
			return
		}
		k := reflect.ValueOf(key.Value).Convert(v.Type().Key())
		entry := reflect.New(v.Type().Elem()).Elem()
		if have := v.MapIndex(k); have.IsValid() {
			entry.Set(have) // what the file leaves out keeps its default
		}
		d.value(value, entry, full)
		if _, marked := d.origins[full]; !marked {
			d.origins[full] = origin{line: key.Line}
		}
		v.SetMapIndex(k, entry)
	})
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.report(n.Line, path, "here must be a list, not "+describe(n), "write [a, b], or one line each that begins with a dash")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content)))
	for i, item := range n.Content {
		entry := reflect.New(v.Type().Elem()).Elem()
		if r, ok := reflect.TypeAssert[*Route](entry.Addr()); ok {
			*r = defaultRoute()
		}
		d.value(item, entry, fmt.Sprintf("%s[%d]", path, i))
		v.Set(reflect.Append(v, entry))
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.report(n.Line, path, "here must be a single value, not "+describe(n), "")
		return
	}
	if err := setScalar(v, n.Value); err != nil {
		text, hint := err.Error(), ""
		if r, ok := errors.AsType[*refusal](err); ok {
			hint = r.hint
		}
		d.report(n.Line, path, text, hint)
	}
}

// setScalar reads a text into a field; file, environment and flags all end here.
func setScalar(v reflect.Value, s string) error {
	if t, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return t.UnmarshalText([]byte(s))
	}
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		if s != "true" && s != "false" {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		v.SetBool(s == "true")
	case reflect.Int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q is no whole number", s)
		}
		v.SetInt(int64(n))
	case reflect.Float64:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", s)
		}
		v.SetFloat(f)
	default:
		panic("config: no scalar form for " + v.Type().String())
	}
	return nil
}

// canary reads none or a list of step sizes.
func (d *decoder) canary(n *yaml.Node, out *Canary, path string) {
	if n.Kind == yaml.ScalarNode {
		if err := out.set(n.Value); err != nil {
			d.report(n.Line, path, err.Error(), "write none, or steps such as [1, 5, 25, 100]")
		}
		return
	}
	d.list(n, reflect.ValueOf((*[]int)(out)).Elem(), path)
}

// set reads the form of environment and flags: none, or 1,5,25,100.
func (c *Canary) set(s string) error {
	*c = nil
	if s == "none" {
		return nil
	}
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q is neither none nor a list of step sizes", s)
		}
		*c = append(*c, n)
	}
	return nil
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	return fmt.Sprintf("%q", n.Value)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
