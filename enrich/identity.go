package enrich

import (
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
	if u.source == "" {
		u.source = e.route.Source
	}
	switch {
	case a.Task.TaskID != "":
		u.identity, u.key = dlqbridge.IdentityTask, a.Task.TaskID
	case l.Provider == dlqbridge.PubSub:
		// A forwarded copy gets a new message id, so its content stands for it.
		u.identity, u.key = dlqbridge.IdentityContent, a.PayloadSHA256+dlqbridge.FormatTime(a.SentAt)
	default:
		u.identity, u.key = dlqbridge.IdentityMessage, l.MessageID
	}
	return u
}

func (u unit) id(episode int) string {
	return dlqbridge.RecordID(u.identity, u.source, u.tenant, u.key, episode)
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
