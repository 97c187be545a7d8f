package dynamodb

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// maxLevels is how deep attributes may nest (Developer Guide, "Quotas": up to
// 32 levels).
const maxLevels = 32

// item reads a map of attribute values and checks each value by itself.
func (r *reader) item() (Item, error) {
	item := Item{}
	err := r.object(func(name string) error {
		if err := checkName(name); err != nil {
			return err
		}
		v, err := r.value()
		item[name] = v
		return err
	})
	return item, err
}

// checkName checks an attribute name (Developer Guide, "Quotas": at least one
// character and no more than 64 KB).
func checkName(name string) error {
	switch {
	case name == "":
		return invalidParameter("An attribute name must not be empty")
	case len(name) > 65_535:
		return invalidParameter("Attribute name is too large, must be less than 65536 bytes")
	}
	return nil
}

// placeholders reads ExpressionAttributeValues; a refusal names the placeholder.
func (r *reader) placeholders() (Item, error) {
	values := Item{}
	err := r.object(func(name string) error {
		v, err := r.value()
		if refusal, ok := errors.AsType[*wire.Error](err); ok && refusal.Type == validation {
			return invalid("ExpressionAttributeValues contains invalid value: %s for key %s", refusal.Message, name)
		}
		values[name] = v
		return err
	})
	return values, err
}

// value reads one attribute value: an object with exactly one member.
func (r *reader) value() (Value, error) {
	var found Value
	seen := 0
	err := r.object(func(name string) error {
		if r.null() {
			return nil
		}
		seen++
		var err error
		found, err = r.typed(name)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case seen == 0:
		return nil, invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	case seen > 1:
		return nil, invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	}
	return found, nil
}

func (r *reader) typed(kind string) (Value, error) {
	switch kind {
	case "S":
		s, err := r.text()
		return stringValue(s), err
	case "N":
		return r.decimal()
	case "B":
		b, err := r.binary()
		return binaryValue(b), err
	case "BOOL":
		b, err := r.boolean()
		return boolValue(b), err
	case "NULL":
		b, err := r.boolean()
		if err == nil && !b {
			err = invalidParameter("Null attribute value types must have the value of true")
		}
		return nullValue{}, err
	case "L":
		list := listValue{}
		err := r.array(func() error {
			v, err := r.value()
			list = append(list, v)
			return err
		})
		return list, err
	case "M":
		return r.item()
	case "SS":
		texts, err := readSet(r, r.text, strings.Compare,
			"An string set  may not be empty", "Input collection %s contains duplicates.")
		return stringsValue(texts), err
	case "BS":
		blobs, err := readSet(r, r.binary, strings.Compare,
			"Binary sets should not be empty", "Input collection %s of type BS contains duplicates.")
		return binaryValues(blobs), err
	case "NS":
		return r.numbers()
	}
	return nil, malformed("Unexpected member %q of an attribute value", kind)
}

func (r *reader) decimal() (Number, error) {
	text, err := r.text()
	if err != nil {
		return Number{}, err
	}
	return ParseNumber(text)
}

func (r *reader) binary() (string, error) {
	text, err := r.text()
	if err != nil {
		return "", err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", malformed("'%s' can not be converted to a Blob: it is not base64", text)
	}
	return string(raw), nil
}

func (r *reader) numbers() (Value, error) {
	var all []Number
	err := r.array(func() error {
		n, err := r.decimal()
		all = append(all, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, invalidParameter("An number set  may not be empty")
	}
	slices.SortFunc(all, Number.Compare)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		return nil, invalid("Input collection contains duplicates")
	}
	return numbersValue(all), nil
}

// readSet reads a set of texts or blobs. Sets are never empty and have no
// repeats (Developer Guide, "Data types", "Sets").
func readSet(r *reader, one func() (string, error), compare func(a, b string) int, empty, repeated string) ([]string, error) {
	var all []string
	err := r.array(func() error {
		e, err := one()
		all = append(all, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, invalidParameter("%s", empty)
	}
	sorted := slices.SortedFunc(slices.Values(all), compare)
	if len(slices.Compact(slices.Clone(sorted))) != len(all) {
		return nil, invalidParameter(repeated, "["+strings.Join(all, ", ")+"]")
	}
	return sorted, nil
}

// checkLevels refuses attributes nested too deeply.
func checkLevels(item Item) error {
	for _, v := range item {
		if depth(v) > maxLevels {
			return invalid("Nesting Levels have exceeded supported limits")
		}
	}
	return nil
}
