package redrive_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/redrive"
)

const (
	topic   = "projects/acme/topics/orders"
	billing = "projects/acme/subscriptions/billing"
	mail    = "projects/acme/subscriptions/mail"
)

// onTopic makes a record of billing's and the topic it goes back to.
func onTopic(w *world, route redrive.Route, source string, receivers []string) {
	route.Name, route.Target = "orders", topic
	w.routes["orders"] = route
	w.queues[topic] = newQueue(topic, false)
	w.queues[topic].facts.Receivers = receivers
	w.add("r_1", func(c *dlqbridge.Control, _ *dlqbridge.Payload) { c.Provider, c.Source = dlqbridge.PubSub, source })
}

// C45: what would reach others than the failed consumer is not sent, and they
// are named; nor is what would reach nobody.
func TestC45NobodyElseGetsACopy(t *testing.T) {
	known := redrive.Route{Source: billing, Sources: []string{billing}}
	for name, c := range map[string]struct {
		route     redrive.Route
		source    string
		receivers []string
		want      dlqbridge.ExcludeReason
		detail    string
	}{
		"one subscription":             {known, billing, []string{billing}, "", ""},
		"two":                          {known, billing, []string{billing, mail}, dlqbridge.ExcludeFanOut, mail + " would get a copy too"},
		"none":                         {known, billing, []string{}, dlqbridge.ExcludeTargetMissing, "has no subscription"},
		"two, and the route accepts":   {redrive.Route{Source: billing, Sources: []string{billing}, FanOut: true}, billing, []string{billing, mail}, "", ""},
		"a letter of another consumer": {known, mail, []string{billing}, dlqbridge.ExcludeSourceMismatch, "its route sends to " + billing},
		"a letter of a topic unknown":  {redrive.Route{Sources: []string{billing}}, mail, []string{billing}, dlqbridge.ExcludeSourceMismatch, "not known to belong to " + topic},
		"a letter of one of several":   {redrive.Route{Sources: []string{billing, mail}}, mail, []string{billing}, "", ""},
		"a letter that names nobody":   {redrive.Route{Sources: []string{}}, "", []string{billing}, "", ""},
		"a queue has no receivers":     {known, billing, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, w *world) {
				onTopic(w, c.route, c.source, c.receivers)
				_, controller := w.start(t, nil)
				plan, err := controller.Plan(ctx, request())
				if err != nil {
					t.Fatal(err)
				}
				if c.want == "" && (len(plan.Jobs) != 1 || plan.Jobs[0].Destination != topic || !slices.Equal(plan.Jobs[0].Receivers, c.receivers)) {
					t.Errorf("the plan does not say who gets it: %+v", plan)
				}
				res, err := controller.Run(ctx, request())
				if err != nil {
					t.Fatal(err)
				}
				if c.want == "" {
					if res.Sent != 1 || len(w.queues[topic].all()) != 1 {
						t.Errorf("sent %d, excluded %+v", res.Sent, res.Excluded)
					}
					return
				}
				if len(w.queues[topic].all()) != 0 || res.Excluded.Len() != 1 || whole(res.Excluded)[0].Reason != c.want || !strings.Contains(whole(res.Excluded)[0].Detail, c.detail) {
					t.Errorf("%d arrived, excluded %+v", len(w.queues[topic].all()), res.Excluded)
				}
			})
		})
	}
}
