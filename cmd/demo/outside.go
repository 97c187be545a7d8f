package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// outside is the world beyond our control, on an address of its own: a card
// processor and a mail service that keep their own book, an account directory,
// and a model that answers. It never forgets, and it does not know dlqbridge:
// the demo's accounts are computed from its book.
//
// The card processor takes every call as a new charge. A real one would honour
// the idempotency key; this one shows what happens to those who rely on luck.
type outside struct {
	mu sync.Mutex
	// book holds what happened, in order.
	book []entry
	// paymentsDown and credentialExpired are today's troubles.
	paymentsDown, credentialExpired bool
	// modelVersion answers with a broken schema while it is 1.
	modelVersion int
	// catalogue lists the customers that exist.
	catalogue map[string]bool
}

// entry is one thing that happened outside.
type entry struct {
	Task string `json:"task"`
	// What is "charge" or "mail": both change the world.
	What    string `json:"what"`
	Receipt string `json:"receipt"`
	Key     string `json:"-"`
}

func newOutside() *outside {
	return &outside{paymentsDown: true, credentialExpired: true, modelVersion: 1, catalogue: map[string]bool{"acme": true, "globex": true}}
}

// change alters the world under its lock.
func (o *outside) change(f func(*outside)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(o)
}

// happened counts an effect per task.
func (o *outside) happened(what string) map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := map[string]int{}
	for _, e := range o.book {
		if e.What == what {
			n[e.Task]++
		}
	}
	return n
}

// repeated counts the effects that happened more than once to the same task.
func (o *outside) repeated() int {
	n := 0
	for _, what := range []string{"charge", "mail"} {
		for _, times := range o.happened(what) {
			n += times - 1
		}
	}
	return n
}

// ServeHTTP is the world's door: POST /charge, /mail, /mailed, /lookup, /model
// with {"task","tenant","customer"}. The mailer can be asked what it has sent;
// the card processor cannot.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in call
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&in); err != nil {
		http.Error(w, `{"code":"BAD_REQUEST"}`, http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	refuse := func(status int, code, message string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer{Code: code, Message: message})
	}
	switch r.URL.Path {
	case "/charge", "/mail":
		what := r.URL.Path[1:]
		switch {
		case what == "charge" && o.paymentsDown && in.Trouble == troubleOutage:
			refuse(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "card processor is in maintenance")
			return
		case what == "charge" && o.credentialExpired && in.Trouble == troubleCredential:
			refuse(http.StatusUnauthorized, "ExpiredToken", "the API token has expired")
			return
		}
		receipt := fmt.Sprintf("%s_%04d", what, len(o.book)+1)
		o.book = append(o.book, entry{Task: in.Task, What: what, Receipt: receipt, Key: in.Key})
		if what == "mail" && in.Trouble == troubleLostAnswer {
			panic(http.ErrAbortHandler) // the mail is out, and the line is cut
		}
		_ = json.NewEncoder(w).Encode(answer{Receipt: receipt})
	case "/mailed": // by the key that a mail was sent under
		for _, e := range o.book {
			if e.What == "mail" && e.Key == in.Key {
				_ = json.NewEncoder(w).Encode(answer{Receipt: e.Receipt})
				return
			}
		}
		refuse(http.StatusNotFound, "NOT_MAILED", "no mail was sent under this key")
	case "/lookup":
		if !o.catalogue[in.Customer] {
			refuse(http.StatusUnprocessableEntity, "UNKNOWN_CUSTOMER", "customer is not in the directory")
			return
		}
		_ = json.NewEncoder(w).Encode(answer{Text: in.Customer})
	case "/model":
		if in.Trouble == troubleSchema && o.modelVersion == 1 {
			_ = json.NewEncoder(w).Encode(answer{Text: `{"amount": "twelve`})
			return
		}
		_ = json.NewEncoder(w).Encode(answer{Text: `{"amount": 12}`})
	default:
		http.NotFound(w, r)
	}
}

// call is what a worker sends to the outside.
type call struct {
	Task     string  `json:"task"`
	Customer string  `json:"customer,omitempty"`
	Key      string  `json:"idempotencyKey,omitempty"`
	Trouble  trouble `json:"trouble,omitempty"`
}

// answer is what comes back.
type answer struct {
	Receipt string `json:"receipt,omitempty"`
	Text    string `json:"text,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// refusal is an answer that says no; the outside changed nothing.
type refusal struct {
	status int
	answer
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.Code, r.Message) }

// ask calls the outside from a worker.
func ask(ctx context.Context, base, path string, c call) (answer, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	var out answer
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return answer{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer{}, &refusal{resp.StatusCode, out}
	}
	return out, nil
}
