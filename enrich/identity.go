package enrich

import (
	"slices"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// unit is the unit of work that a letter belongs to: what its record's id is
// made from.
type unit struct {
	identity            dlqbridge.Identity
	source, tenant, key string
}

// unitOf names the unit of work. Source comes from the transport, else from the
// route; nothing a sender can write chooses where work is sent.
func (e *Enricher) unitOf(l dlqbridge.Letter, a dlqbridge.Arrival) unit {
	u := unit{source: l.Source, tenant: a.Task.Tenant}
	if u.source == "" || e.route.Source != "" && e.resumed(u.source) {
		u.source = e.route.Source // what was resumed elsewhere is work of the source
	}
	switch {
	case a.Task.TaskID != "":
		u.identity = dlqbridge.IdentityTask
	case l.Provider == dlqbridge.PubSub:
		// A forwarded copy gets a new message id, so its content stands for it.
		u.identity = dlqbridge.IdentityContent
	default:
		u.identity = dlqbridge.IdentityMessage
	}
	u.key = keyOf(u.identity, a)
	return u
}

// resumed says whether a source dead-letters what this route has resumed.
func (e *Enricher) resumed(source string) bool { return slices.Contains(e.route.Resumed, source) }

// keyOf is what stands for the unit of work in its record's id.
func keyOf(identity dlqbridge.Identity, a dlqbridge.Arrival) string {
	switch identity {
	case dlqbridge.IdentityTask:
		return a.Task.TaskID
	case dlqbridge.IdentityContent:
		return a.PayloadSHA256 + dlqbridge.FormatTime(a.SentAt)
	case dlqbridge.IdentityMessage:
	}
	return a.MessageID
}

func (u unit) id(episode int) string {
	return dlqbridge.RecordID(u.identity, u.source, u.tenant, u.key, episode)
}

// NextEpisode is the id that the record after this one has, if a letter came
// after this one was closed; empty if it cannot be told.
func NextEpisode(c dlqbridge.Case) string {
	for _, a := range c.Arrivals {
		u := unit{identity: c.Control.Identity, source: c.Control.Source, tenant: a.Task.Tenant, key: keyOf(c.Control.Identity, a)}
		if u.id(c.Control.Episode) == c.Control.ID {
			return u.id(c.Control.Episode + 1)
		}
	}
	return ""
}

// opened is the control item of a new record, before its first judgement.
func (e *Enricher) opened(u unit, episode int, previous string, l dlqbridge.Letter, a dlqbridge.Arrival, at time.Time) dlqbridge.Control {
	return dlqbridge.Control{
		ID: u.id(episode), Version: 1, Identity: u.identity, Episode: episode, Previous: previous,
		Route: e.route.Name, Provider: l.Provider, Source: u.source,
		TaskID: dlqbridge.Short(a.Task.TaskID), Tenant: dlqbridge.Short(a.Task.Tenant),
		PayloadVersion: 1, Arrivals: 1, Newest: a.Key,
		FirstSeen: at, LastSeen: at, LostAt: a.LostAt,
	}
}
