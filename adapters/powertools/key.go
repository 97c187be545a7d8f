package powertools

import (
	"crypto/md5"  //nolint:gosec // Powertools' default; it names records, it guards nothing
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/api"

	"github.com/dlqbridge/dlqbridge"
)

// The rules of keys are those of the persistence layers' base classes:
// aws-powertools/powertools-lambda-python, utilities/idempotency/persistence/base.py,
// and aws-powertools/powertools-lambda-typescript, packages/idempotency/src/persistence/
// BasePersistenceLayer.ts and deepSort.ts (both read 2026-11-30).

// keys computes the idempotency key of a message.
type keys struct {
	o                          Options
	lang                       language
	event, validation, receipt api.JMESPath
	hash                       func() hash.Hash
}

var hashes = map[string]func() hash.Hash{
	"": md5.New, "md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

func newKeys(o Options) (keys, error) {
	k := keys{o: o, lang: languages[o.Runtime], hash: hashes[o.HashFunction]}
	if k.hash == nil {
		return keys{}, fmt.Errorf("HashFunction %q: must be md5, sha1, sha256, sha384 or sha512", o.HashFunction)
	}
	for _, e := range []struct {
		option, expression string
		into               *api.JMESPath
	}{
		{"EventKeyJMESPath", o.EventKeyJMESPath, &k.event},
		{"PayloadValidationJMESPath", o.PayloadValidationJMESPath, &k.validation},
		{"ReceiptJMESPath", o.ReceiptJMESPath, &k.receipt},
	} {
		if e.expression == "" {
			continue
		}
		compiled, err := api.Compile(e.expression, k.lang.functions()...)
		if err != nil {
			return keys{}, fmt.Errorf("%s %q: %w", e.option, e.expression, err)
		}
		*e.into = compiled
	}
	return k, nil
}

// of is the key of the message and the hash of what is validated; or why there
// is none, in words that quote nothing of the message.
func (k keys) of(q dlqbridge.Question) (key, validation, why string) {
	input, err := k.input(q)
	if err != nil {
		return "", "", "no key: the body is not JSON"
	}
	selected := input
	if k.event != nil {
		if selected, err = search(k.event, input); err != nil {
			return "", "", "no key: EventKeyJMESPath does not work on this message"
		}
	}
	if k.lang.missing(selected) {
		return "", "", "no key: EventKeyJMESPath finds nothing in this message, so it ran unprotected"
	}
	sum, err := k.sum(selected)
	if err != nil {
		return "", "", "no key: " + err.Error()
	}
	if k.validation != nil {
		validated, err := search(k.validation, input)
		if err != nil {
			return "", "", "no validation hash: PayloadValidationJMESPath does not work on this message"
		}
		if validation, err = k.sum(validated); err != nil {
			return "", "", "no validation hash: " + err.Error()
		}
	}
	return k.o.Prefix + "#" + sum, validation, ""
}

func (k keys) sum(v any) (string, error) {
	var b strings.Builder
	if err := k.lang.write(&b, v); err != nil {
		return "", err
	}
	if strings.ContainsRune(b.String(), '\uFFFD') || strings.Contains(b.String(), `\ufffd`) {
		// What stood there is lost, and a key made from the rest is another one.
		return "", errors.New("the selected value is not valid text")
	}
	h := k.hash()
	h.Write([]byte(b.String()))
	if k.o.Runtime == Python {
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// input is what the worker was given, as far as a dead letter keeps it.
func (k keys) input(q dlqbridge.Question) (any, error) {
	body := string(q.Payload.Body)
	if k.o.Input == InputBody {
		return k.lang.parse(body)
	}
	attributes := map[string]any{}
	if q.Payload.GroupKey != "" {
		attributes["MessageGroupId"] = q.Payload.GroupKey
	}
	record := map[string]any{
		"messageId": q.MessageID, "body": body, "attributes": attributes,
		"messageAttributes": messageAttributes(q.Payload.Attributes), "eventSource": "aws:sqs",
	}
	if q.MessageID == "" {
		delete(record, "messageId")
	}
	if k.o.Input == InputEvent {
		return map[string]any{"Records": []any{record}}, nil
	}
	return record, nil
}

// messageAttributes has the shape of Lambda's SQS event ("Using Lambda with
// Amazon SQS", read 2026-11-30).
func messageAttributes(in []dlqbridge.Attribute) map[string]any {
	out := map[string]any{}
	for _, a := range in {
		if a.Name == dlqbridge.MarkName || a.Name == dlqbridge.MarkToName { // ours: the producer's message had none
			continue
		}
		v := map[string]any{"dataType": a.Type, "stringListValues": []any{}, "binaryListValues": []any{}}
		if strings.HasPrefix(a.Type, "Binary") {
			v["binaryValue"] = base64.StdEncoding.EncodeToString(a.Value)
		} else {
			v["stringValue"] = string(a.Value)
		}
		out[a.Name] = v
	}
	return out
}
