package config

import (
	"encoding/json"
	"reflect"

	"github.com/dlqbridge/dlqbridge/enrich"
)

// Schema is the JSON Schema of the file for editors, made of the same structs
// that the file is read into. It is strict as the reader is, but cannot say
// every rule of it.
func Schema() []byte {
	c := Default()
	root := schemaOf(reflect.ValueOf(&c).Elem())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://github.com/dlqbridge/dlqbridge/dlqbridge.schema.json"
	root["title"] = "dlqbridge.yaml"
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps of texts encode
	}
	return append(text, '\n')
}

// schemaOf describes a value; what v holds is the default.
func schemaOf(v reflect.Value) map[string]any {
	if _, ok := reflect.TypeAssert[*Canary](v.Addr()); ok {
		return map[string]any{"oneOf": []any{
			map[string]any{"const": "none"},
			map[string]any{"type": "array", "items": map[string]any{"type": "integer", "minimum": 1}},
		}, "default": "none"}
	}
	if t, ok := reflect.TypeAssert[text](v.Addr()); ok {
		return textSchema(v, t)
	}
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.Pointer:
		return schemaOf(blank(v.Type().Elem()).Elem())
	case reflect.Struct:
		return structSchema(v)
	case reflect.Map:
		return mapSchema(v)
	case reflect.Slice:
		item := reflect.New(v.Type().Elem()).Elem()
		r, isRoute := reflect.TypeAssert[*Route](item.Addr())
		if isRoute {
			*r = defaultRoute()
		}
		one := schemaOf(item)
		if isRoute {
			one["oneOf"] = oneKind(routeKinds)
		}
		return map[string]any{"type": "array", "items": one}
	case reflect.Bool:
		return map[string]any{"type": "boolean", "default": v.Bool()}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0, "default": v.Int()}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0, "maximum": 1}
	default:
		out := map[string]any{"type": "string"}
		if s := v.String(); s != "" {
			out["default"] = s
		}
		return out
	}
}

// oneKind says that exactly one of some keys is there.
func oneKind(kinds []string) []any {
	var out []any
	for _, kind := range kinds {
		out = append(out, map[string]any{"required": []string{kind}})
	}
	return out
}

func textSchema(v reflect.Value, t text) map[string]any {
	out := map[string]any{"type": "string"}
	if c, ok := t.(closed); ok {
		out["enum"] = c.values()
	}
	if p, ok := t.(patterned); ok {
		out["pattern"] = p.pattern()
	}
	_, observe := t.(*Observe)
	if written, err := t.MarshalText(); err == nil && (!v.IsZero() || observe) {
		out["default"] = string(written)
	}
	return out
}

func structSchema(v reflect.Value) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range fieldsOf(v.Type()) {
		one := schemaOf(v.FieldByIndex(f.index))
		one["description"] = f.doc
		items, isList := one["items"].(map[string]any)
		switch {
		case f.pattern != "" && isList:
			items["pattern"], one["uniqueItems"] = f.pattern, true
		case f.pattern != "":
			one["pattern"] = f.pattern
		}
		properties[f.key] = one
		if f.required {
			required = append(required, f.key)
		}
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func mapSchema(v reflect.Value) map[string]any {
	entry := func(from reflect.Value) map[string]any {
		one := reflect.New(v.Type().Elem()).Elem()
		if from.IsValid() {
			one.Set(from)
		}
		return schemaOf(one)
	}
	known := knownKeys(v.Type().Key())
	switch v.Type().Elem() {
	case reflect.TypeFor[Store]():
		one := entry(reflect.Value{})
		one["oneOf"] = oneKind(storeKinds)
		return map[string]any{"type": "object", "propertyNames": map[string]any{"pattern": storeName.String()}, "additionalProperties": one}
	case reflect.TypeFor[Header](), reflect.TypeFor[string]():
		return map[string]any{"type": "object", "additionalProperties": entry(reflect.Value{})}
	}
	if known == nil {
		known = enrich.FieldNames()
	}
	properties := map[string]any{}
	for _, k := range known {
		properties[k] = entry(v.MapIndex(reflect.ValueOf(k).Convert(v.Type().Key())))
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}
