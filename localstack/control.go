package localstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// control adds the control interface to the door.
func (c *Cloud) control(door *http.ServeMux) {
	door.HandleFunc("GET /_local/health", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, map[string]bool{"ready": true})
	})
	door.HandleFunc("GET /_local/requests", c.getRequests)
	door.HandleFunc("DELETE /_local/requests", func(w http.ResponseWriter, _ *http.Request) {
		c.ForgetRequests()
		say(w, http.StatusOK, struct{}{})
	})
	door.HandleFunc("GET /_local/counters", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, c.Counters())
	})
	door.HandleFunc("POST /_local/faults", c.postFault)
	door.HandleFunc("DELETE /_local/faults", func(w http.ResponseWriter, _ *http.Request) {
		c.ClearFaults()
		say(w, http.StatusOK, struct{}{})
	})
	door.HandleFunc("POST /_local/clock", c.postClock)
	door.HandleFunc("/_local/", func(w http.ResponseWriter, r *http.Request) {
		complain(w, http.StatusNotFound, fmt.Errorf("there is no %s %s: see the table of calls in localstack/README.md", r.Method, r.URL.Path))
	})
}

func (c *Cloud) getRequests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name := range query {
		if name != "service" && name != "since" {
			complain(w, http.StatusBadRequest, fmt.Errorf("unknown parameter %q: want service, since", name))
			return
		}
	}
	since := int64(0)
	if text := query.Get("since"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			complain(w, http.StatusBadRequest, fmt.Errorf("since is %q: want the number of a call", text))
			return
		}
		since = n
	}
	say(w, http.StatusOK, c.Requests(query.Get("service"), since))
}

func (c *Cloud) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if err := readStrictly(r, &f); err != nil {
		complain(w, http.StatusBadRequest, fmt.Errorf("the fault rule is not understood: %w", err))
		return
	}
	id, err := c.AddFault(f)
	if err != nil {
		complain(w, http.StatusBadRequest, err)
		return
	}
	say(w, http.StatusOK, map[string]string{"id": id})
}

func (c *Cloud) postClock(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Advance string `json:"advance"`
	}
	if err := readStrictly(r, &in); err != nil {
		complain(w, http.StatusBadRequest, fmt.Errorf(`want {"advance":"13h"}: %w`, err))
		return
	}
	by, err := time.ParseDuration(in.Advance)
	if err != nil || by < 0 {
		complain(w, http.StatusBadRequest, fmt.Errorf(`advance is %q: want a duration forward such as "90s" or "13h"`, in.Advance))
		return
	}
	c.clock.Advance(by)
	say(w, http.StatusOK, map[string]string{"now": c.clock.Now().Format(time.RFC3339Nano)})
}

// maxControlBytes bounds a request to the control interface.
const maxControlBytes = 1 << 20

func readStrictly(r *http.Request, into any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxControlBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("there is more than one JSON value")
	}
	return nil
}

func say(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that went away has nothing to be told.
	_, _ = w.Write(append(body, '\n'))
}

func complain(w http.ResponseWriter, status int, err error) {
	say(w, status, map[string]string{"error": err.Error()})
}
