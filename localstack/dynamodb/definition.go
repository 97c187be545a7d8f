package dynamodb

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// The JSON shapes of table calls (API Reference, data types of these names).
type (
	attributeDefinition struct{ AttributeName, AttributeType string }
	keySchemaElement    struct{ AttributeName, KeyType string }
	projectionShape     struct {
		ProjectionType   string   `json:",omitempty"`
		NonKeyAttributes []string `json:",omitempty"`
	}
	throughput struct{ ReadCapacityUnits, WriteCapacityUnits int64 }
	tag        struct{ Key, Value string }

	indexDefinition struct {
		IndexName             string
		KeySchema             []keySchemaElement
		Projection            *projectionShape
		ProvisionedThroughput *throughput `json:",omitempty"`
		local                 bool
	}

	// A definition is what never changes about a table.
	definition struct {
		TableName string
		KeySchema []keySchemaElement
		id        string
		created   time.Time
		keys      schema
	}

	// The settings are what UpdateTable can change.
	settings struct {
		attributes []attributeDefinition
		billing    string
		throughput *throughput
		class      string
		protected  bool // against deletion
	}
)

func (d *definition) arn() string {
	return "arn:aws:dynamodb:" + wire.Region + ":" + wire.Account + ":table/" + d.TableName
}

// schemaOf checks a key schema against the attribute definitions.
func schemaOf(elements []keySchemaElement, definitions []attributeDefinition) (schema, error) {
	if len(elements) == 0 {
		return schema{}, required("keySchema")
	}
	for _, e := range elements {
		if err := checkChoice("keySchema.member.keyType", e.KeyType, []string{"HASH", "RANGE"}); err != nil {
			return schema{}, err
		}
	}
	hashes := slices.DeleteFunc(slices.Clone(elements), func(e keySchemaElement) bool { return e.KeyType != "HASH" })
	switch {
	case len(elements) > 2:
		// Up to four attributes a key since November 2025 for indexes.
		return schema{}, notServed("keys of more than one partition and one sort attribute")
	case elements[0].KeyType != "HASH":
		return schema{}, invalidParameter("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	case len(hashes) > 1:
		return schema{}, invalidParameter("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
	case len(elements) == 2 && elements[0].AttributeName == elements[1].AttributeName:
		return schema{}, invalidParameter("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	var parts [2]keyPart
	for i, e := range elements {
		at := slices.IndexFunc(definitions, func(d attributeDefinition) bool { return d.AttributeName == e.AttributeName })
		if at < 0 {
			return schema{}, invalidParameter("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: %s",
				e.AttributeName, definedNames(definitions))
		}
		parts[i] = keyPart{e.AttributeName, definitions[at].AttributeType}
	}
	return schema{parts[0], parts[1]}, nil
}

func definedNames(definitions []attributeDefinition) string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.AttributeName
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// newIndex checks an index definition and makes an empty index of it.
func newIndex(d indexDefinition, table schema, definitions []attributeDefinition) (*index, error) {
	if len(d.IndexName) < 3 || len(d.IndexName) > 255 || !isName(d.IndexName) {
		return nil, invalid("Invalid table/index name.  Table/index names must be between 3 and 255 characters long, and may contain only the characters a-z, A-Z, 0-9, '_', '-', and '.'")
	}
	keys, err := schemaOf(d.KeySchema, definitions)
	if err != nil {
		return nil, err
	}
	i := &index{indexDefinition: d, keys: keys}
	if d.local && (keys.sort.name == "" || keys.hash != table.hash) {
		return nil, invalidParameter("Index KeySchema does not have the same leading hash key as table KeySchema for index: %s", d.IndexName)
	}
	switch p := d.Projection; {
	case p == nil || p.ProjectionType == "":
		return nil, invalidParameter("Unknown ProjectionType: null")
	case p.ProjectionType != "INCLUDE" && len(p.NonKeyAttributes) > 0:
		return nil, invalidParameter("ProjectionType is %s, but NonKeyAttributes is specified", p.ProjectionType)
	case p.ProjectionType == "INCLUDE" && len(p.NonKeyAttributes) == 0:
		return nil, invalidParameter("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case p.ProjectionType == "ALL":
		return i, nil
	case p.ProjectionType != "INCLUDE" && p.ProjectionType != "KEYS_ONLY":
		return nil, constraint(p.ProjectionType, "projection.projectionType", "Member must satisfy enum value set: [ALL, INCLUDE, KEYS_ONLY]")
	}
	var paths []path
	for _, part := range slices.Concat(keys.parts(), table.parts()) {
		paths = append(paths, path{{name: part.name}})
	}
	for _, name := range d.Projection.NonKeyAttributes {
		paths = append(paths, path{{name: name}})
	}
	i.covers = projectionOf(paths)
	return i, nil
}
