package localstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"mime"
	"net/http"
	"net/url"

	"github.com/dlqbridge/dlqbridge/localstack/wire"
)

// identity is the one action of AWS STS that is served: who am I. It speaks
// the Query protocol: a form in, XML out ("AWS STS API Reference",
// GetCallerIdentity).
type identity struct{}

var _ wire.Service = identity{}

// identityAction recognises a form of the Query protocol and names its action.
func identityAction(r *http.Request, body []byte) (string, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method != http.MethodPost || err != nil || kind != "application/x-www-form-urlencoded" {
		return "", false
	}
	form, err := url.ParseQuery(string(body))
	// SQS had a Query protocol of the same form and another version; clients
	// of that age are told so by the refusal of an unknown request.
	if err != nil || form.Get("Version") != "2011-06-15" || form.Get("Action") == "" {
		return "", false
	}
	return form.Get("Action"), true
}

// Name implements wire.Service.
func (identity) Name() string { return "sts" }

// Call implements wire.Service. The user is named after the access key, so a
// test can be two people.
func (identity) Call(ctx context.Context, operation string, _ []byte) ([]byte, error) {
	if operation != "GetCallerIdentity" {
		return nil, &wire.Error{Status: http.StatusBadRequest, Type: "InvalidAction", Message: fmt.Sprintf("The local cloud does not serve the STS action %s.", operation)}
	}
	key := wire.CallerOf(ctx).AccessKey
	if key == "" {
		return nil, &wire.Error{Status: http.StatusForbidden, Type: "MissingAuthenticationToken", Message: "Request is missing Authentication Token"}
	}
	type result struct {
		Arn     string
		UserID  string `xml:"UserId"`
		Account string
	}
	return xml.Marshal(struct {
		XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
		Result  result   `xml:"GetCallerIdentityResult"`
		Request string   `xml:"ResponseMetadata>RequestId"`
	}{Result: result{"arn:aws:iam::" + Account + ":user/" + key, "AIDA" + key, Account}, Request: requestID()})
}

// refusedXML is an error of the Query protocol.
func refusedXML(e *wire.Error) outcome {
	type fault struct {
		Type, Code, Message string
	}
	kind := "Sender"
	if e.Status >= http.StatusInternalServerError {
		kind = "Receiver"
	}
	body, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
		Error   fault
		Request string `xml:"RequestId"`
	}{Error: fault{kind, e.Type, e.Message}, Request: requestID()})
	if err != nil {
		panic(err) // strings encode
	}
	return outcome{status: e.Status, header: http.Header{"Content-Type": {"text/xml"}}, body: body}
}

func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
