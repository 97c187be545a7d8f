package dynamodb

import (
	"slices"
	"strconv"
	"strings"
)

// request is the body of a data call: the union of what the calls on items
// take. Each call says which members it knows.
type request struct {
	table, index string

	key, item Item
	start     Item // ExclusiveStartKey

	condition, update, filter, projection, keyCondition *string

	names  map[string]string
	values Item

	returnValues, returnOnFailure, returnCapacity, returnMetrics, selected string

	consistent bool
	backward   bool
	limit      *int
	segment    *int
	segments   *int
}

// The members that each call knows; any other is refused, because the local
// cloud would not do what it asks for.
var (
	writeMembers = []string{
		"TableName", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
		"ReturnValues", "ReturnValuesOnConditionCheckFailure", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics",
	}
	readMembers = []string{
		"TableName", "ProjectionExpression", "ExpressionAttributeNames", "ConsistentRead", "ReturnConsumedCapacity",
	}
	pageMembers = append([]string{
		"IndexName", "FilterExpression", "ExpressionAttributeValues", "Select", "Limit", "ExclusiveStartKey",
	}, readMembers...)

	putMembers    = append([]string{"Item"}, writeMembers...)
	deleteMembers = append([]string{"Key"}, writeMembers...)
	updateMembers = append([]string{"Key", "UpdateExpression"}, writeMembers...)
	getMembers    = append([]string{"Key"}, readMembers...)
	queryMembers  = append([]string{"KeyConditionExpression", "ScanIndexForward"}, pageMembers...)
	scanMembers   = append([]string{"Segment", "TotalSegments"}, pageMembers...)
)

// legacyMembers are the parameters from before expressions (Developer Guide,
// "Legacy conditional parameters").
var legacyMembers = []string{
	"AttributesToGet", "AttributeUpdates", "ConditionalOperator", "Expected", "KeyConditions", "QueryFilter", "ScanFilter",
}

// readRequest reads the body of a data call.
func readRequest(body []byte, members []string) (*request, error) {
	r := &reader{data: body}
	q := &request{}
	if err := q.read(r, members); err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return q, nil
}

func (q *request) read(r *reader, members []string) error {
	return r.object(func(name string) error {
		if r.null() {
			return nil
		}
		switch {
		case slices.Contains(members, name):
			return q.member(r, name)
		case slices.Contains(legacyMembers, name):
			return notServed("the legacy parameter " + name + "; it has expressions")
		}
		return notServed("the parameter " + name + " of this operation")
	})
}

func (q *request) member(r *reader, name string) (err error) {
	switch name {
	case "TableName":
		q.table, err = r.text()
	case "IndexName":
		q.index, err = r.text()
	case "Key":
		q.key, err = r.item()
	case "Item":
		q.item, err = r.item()
	case "ExclusiveStartKey":
		q.start, err = r.item()
	case "ConditionExpression":
		q.condition, err = r.optional()
	case "UpdateExpression":
		q.update, err = r.optional()
	case "FilterExpression":
		q.filter, err = r.optional()
	case "ProjectionExpression":
		q.projection, err = r.optional()
	case "KeyConditionExpression":
		q.keyCondition, err = r.optional()
	case "ExpressionAttributeNames":
		q.names, err = r.names()
	case "ExpressionAttributeValues":
		q.values, err = r.placeholders()
	case "ReturnValues":
		q.returnValues, err = r.text()
	case "ReturnValuesOnConditionCheckFailure":
		q.returnOnFailure, err = r.text()
	case "ReturnConsumedCapacity":
		q.returnCapacity, err = r.text()
	case "ReturnItemCollectionMetrics":
		q.returnMetrics, err = r.text()
	case "Select":
		q.selected, err = r.text()
	case "ConsistentRead":
		q.consistent, err = r.boolean()
	case "ScanIndexForward":
		q.backward, err = r.boolean()
		q.backward = !q.backward
	case "Limit":
		q.limit, err = r.count()
	case "Segment":
		q.segment, err = r.count()
	case "TotalSegments":
		q.segments, err = r.count()
	}
	return err
}

func (r *reader) optional() (*string, error) {
	text, err := r.text()
	return &text, err
}

func (r *reader) count() (*int, error) {
	n, err := r.integer()
	return &n, err
}

func (r *reader) names() (map[string]string, error) {
	names := map[string]string{}
	err := r.object(func(placeholder string) error {
		name, err := r.text()
		names[placeholder] = name
		return err
	})
	return names, err
}

// check checks the members against the API model (API Reference).
func (q *request) check() error {
	if err := checkTableName(q.table); err != nil {
		return err
	}
	for _, choice := range []struct {
		member, value string
		allowed       []string
	}{
		{"returnValues", q.returnValues, []string{"ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"}},
		{"returnValuesOnConditionCheckFailure", q.returnOnFailure, []string{"ALL_OLD", "NONE"}},
		{"returnConsumedCapacity", q.returnCapacity, capacityChoices},
		{"returnItemCollectionMetrics", q.returnMetrics, metricsChoices},
		{"select", q.selected, []string{"SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"}},
	} {
		if err := checkChoice(choice.member, choice.value, choice.allowed); err != nil {
			return err
		}
	}
	if q.limit != nil && *q.limit < 1 {
		return constraint(strconv.Itoa(*q.limit), "limit", "Member must have value greater than or equal to 1")
	}
	return nil
}

var (
	capacityChoices = []string{"INDEXES", "TOTAL", "NONE"}
	metricsChoices  = []string{"SIZE", "NONE"}
)

func checkChoice(member, value string, allowed []string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return constraint(value, member, "Member must satisfy enum value set: ["+strings.Join(allowed, ", ")+"]")
}

// checkTableName checks a name or an ARN (API Reference, CreateTable: 3 to 255
// characters of a-z, A-Z, 0-9, '_', '-' and '.').
func checkTableName(name string) error {
	if strings.HasPrefix(name, "arn:") {
		return nil
	}
	switch {
	case name == "":
		return required("tableName")
	case !isName(name):
		return constraint(name, "tableName", "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	case len(name) < 3:
		return constraint(name, "tableName", "Member must have length greater than or equal to 3")
	case len(name) > 255:
		return constraint(name, "tableName", "Member must have length less than or equal to 255")
	}
	return nil
}

func isName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && !isDigit(c) && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return name != ""
}

// bindings checks the placeholders of a request whose expressions are the
// given members; members names them for the message.
func (q *request) bindings(members string, expressions ...*string) (*bindings, error) {
	given := slices.ContainsFunc(expressions, func(e *string) bool { return e != nil })
	return newBindings(q.names, q.values, given, members)
}
