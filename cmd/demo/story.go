package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/cli"
)

// accounts is how the day ended.
type accounts struct {
	Tasks     int `json:"tasks"`
	Records   int `json:"records"`
	Redriven  int `json:"redriven"`
	Completed int `json:"completed"`
	Held      int `json:"held"`
	// Lost and EffectsRepeated come from the outside world's own book.
	Lost            int `json:"lost"`
	EffectsRepeated int `json:"effectsRepeated"`
}

// play tells the story from the first task to the accounts.
func (s *stage) play(ctx context.Context) (accounts, error) {
	for _, part := range []func(context.Context) error{
		s.badDay, s.intake, s.pressTheButton, s.outageEnds, s.peopleFix, s.peopleDecide, s.workersFinish,
	} {
		if err := part(ctx); err != nil {
			return accounts{}, err
		}
	}
	return s.settle(ctx)
}

func (s *stage) badDay(ctx context.Context) error {
	s.chapter("A bad day")
	second := on(onPubSub, s.orders)
	s.say("%d tasks go out: look a customer up, let a model write an invoice, charge the card, mail it.", len(s.orders))
	s.say("One team sends them by SQS, another (%d of them) by Pub/Sub.", len(second))
	for _, k := range kinds {
		s.say("    %3d %s", k.count+k.second, k.story)
	}
	if _, err := s.dlqbridge(ctx, 0, "tables", "create"); err != nil {
		return err
	}
	if err := s.send(ctx); err != nil {
		return err
	}
	s.say("%d worker processes run them, with the kit that keeps a ledger of intents and receipts. SQS gives each task three deliveries, Pub/Sub five;", workers+noteWorkers)
	s.say("what no further delivery can help the workers dead-letter themselves, with what only they know.")
	tasks := make([]string, len(second))
	for i, o := range second {
		tasks[i] = o.id
	}
	if err := s.work(ctx, tasks); err != nil {
		return err
	}
	dead, err := s.depth(ctx, "invoices-dlq")
	if err != nil {
		return err
	}
	s.say("%d tasks worked. %d are in the dead-letter queue and %d in the dead-letter subscription, and %d workers have died on the way.",
		len(s.orders)-dead-s.notes.dead(), dead, s.notes.dead(), s.fleet.crashes.Load()+s.notesFleet.crashes.Load())
	s.say("The brokers know only that nobody confirmed them. The card processor has taken %d charges.", len(s.outside.happened("charge")))
	return nil
}

func (s *stage) intake(ctx context.Context) error {
	s.chapter("Every dead letter becomes a record with evidence and a decision")
	if err := s.typed(ctx, cli.ExitDone, 5, "intake", "--until-empty"); err != nil {
		return err
	}
	return s.typed(ctx, cli.ExitDone, 20, "records", "groups")
}

func (s *stage) pressTheButton(ctx context.Context) error {
	s.chapter("What people do today: press \"redrive all\" and hope")
	s.say("Some of these have charged a card already, and nobody kept the receipt. dlqbridge does not guess:")
	return s.typed(ctx, cli.ExitPartial, 14, "redrive", "run", "--cause", string(dlqbridge.CauseAmbiguousEffect), "--fix", "deploy:1.4.2", "--reason", "just send them")
}

func (s *stage) outageEnds(ctx context.Context) error {
	s.chapter("The outage ends: what met it goes home, by cause and under a rate")
	s.outside.change(func(o *outside) { o.paymentsDown = false })
	cause, fix := string(dlqbridge.CauseDependencyUnavailable), "state:card processor is up again"
	if err := s.typed(ctx, cli.ExitDone, 8, "redrive", "plan", "--cause", cause, "--fix", fix); err != nil {
		return err
	}
	return s.typed(ctx, cli.ExitDone, 8, "redrive", "run", "--cause", cause, "--fix", fix, "--reason", "maintenance is over")
}

func (s *stage) peopleFix(ctx context.Context) error {
	s.chapter("People fix causes: a credential, a prompt, a limit, a worker that ran out of memory")
	s.outside.change(func(o *outside) { o.credentialExpired = false; o.modelVersion = 2; o.catalogue["initech"] = true })
	for _, f := range []struct {
		cause       dlqbridge.Cause
		fix, reason string
	}{
		{dlqbridge.CausePermission, "credential:token rotated", "new token is in place"},
		{dlqbridge.CauseOutputContract, "deploy:prompt 2.1", "schema is enforced now"},
		{dlqbridge.CausePolicyLimit, "config:max turns 20", "long invoices need more turns"},
		{dlqbridge.CauseInvalidInput, "data:initech imported", "customer was missing in the directory"},
	} {
		if err := s.typed(ctx, cli.ExitDone, 2, "redrive", "run", "--cause", string(f.cause), "--fix", f.fix, "--reason", f.reason); err != nil {
			return err
		}
	}
	s.say("")
	s.say("Of the tasks whose worker just vanished, the ledger proves that some had begun nothing; the others have a receipt and stay:")
	return s.typed(ctx, cli.ExitPartial, 7, "redrive", "run", "--cause", string(dlqbridge.CauseUnclassified), "--fix", "capacity:worker memory doubled", "--reason", "workers ran out of memory")
}

func (s *stage) peopleDecide(ctx context.Context) error {
	s.chapter("People decide what no machine may")
	list, err := s.records(ctx)
	if err != nil {
		return err
	}
	doubtful := of(list, troubleCrashAfter)
	if len(doubtful) == 0 {
		return errors.New("no record of a task that crashed after its charge")
	}
	one := doubtful[0]
	if err := s.typed(ctx, cli.ExitDone, 24, "records", "explain", one.ID); err != nil {
		return err
	}
	s.say("The card processor's own book shows the charge. That is evidence:")
	if err := s.typed(ctx, cli.ExitDone, 6, "triage", "settle-effect", one.ID, "--to", "confirmed", "--step", "0004#charge",
		"--reason", "looked it up in the card processor's book", "--evidence", "charge found for "+one.TaskID); err != nil {
		return err
	}
	if err := s.typed(ctx, cli.ExitDone, 6, "triage", "complete-manually", one.ID,
		"--reason", "invoice was mailed by hand", "--evidence", "mail 2026-11-30 by accounting"); err != nil {
		return err
	}
	return s.typed(ctx, cli.ExitDone, 12, "records", "history", one.ID)
}

func (s *stage) workersFinish(ctx context.Context) error {
	s.chapter("The workers finish what came home")
	list, err := s.records(ctx)
	if err != nil {
		return err
	}
	var home []string
	for _, r := range list {
		if r.Route == "notes" && dlqbridge.Status(r.Status) == dlqbridge.StatusRedriving {
			home = append(home, r.TaskID)
		}
	}
	if err := s.work(ctx, home, envCalm+"=1", envTurns+"=20"); err != nil {
		return err
	}
	if err := s.typed(ctx, cli.ExitDone, 6, "redrive", "observe"); err != nil {
		return err
	}
	return s.typed(ctx, cli.ExitDone, 16, "records", "list")
}

// settle computes the accounts: what is done by the outside world's book, what
// is kept by the records and queues.
func (s *stage) settle(ctx context.Context) (accounts, error) {
	list, err := s.records(ctx)
	if err != nil {
		return accounts{}, err
	}
	a := accounts{Tasks: len(s.orders), Records: len(list), EffectsRepeated: s.outside.repeated()}
	kept := map[string]bool{}
	mailed := s.outside.happened("mail")
	for _, r := range list {
		kept[r.TaskID] = true
		if !dlqbridge.Status(r.Status).Closed() {
			a.Held++
		}
		out, err := s.dlqbridge(ctx, 0, "records", "show", r.ID, "-o", "json")
		if err != nil {
			return accounts{}, err
		}
		redriven, err := wasRedriven(out)
		if err != nil {
			return accounts{}, err
		}
		if redriven {
			a.Redriven++
			if dlqbridge.Status(r.Status) == dlqbridge.StatusCompleted && mailed[r.TaskID] > 0 {
				a.Completed++
			}
		}
	}
	// Lost is a task whose work is not done outside, and of which there is
	// neither a record nor a message.
	waiting := 0
	for _, queue := range []string{"invoices", "invoices-dlq"} {
		n, err := s.depth(ctx, queue)
		if err != nil {
			return accounts{}, err
		}
		waiting += n
	}
	for _, b := range []broker{onSQS, onPubSub} {
		missing := 0
		for _, o := range on(b, s.orders) {
			if mailed[o.id] == 0 && !kept[o.id] {
				missing++
			}
		}
		if b == onSQS { // Pub/Sub has no counters: nothing there is excused
			missing = max(0, missing-waiting)
		}
		a.Lost += missing
	}

	s.chapter("The accounts, by the outside world's own book")
	s.say("    %3d tasks", a.Tasks)
	s.say("    %3d became records; %d of them were sent home, and %d of those have finished", a.Records, a.Redriven, a.Completed)
	s.say("    %3d still wait for a person, with their evidence", a.Held)
	s.say("    %s", s.paint(green, fmt.Sprintf("%3d lost", a.Lost)))
	s.say("    %s", s.paint(green, fmt.Sprintf("%3d effects repeated", a.EffectsRepeated)))
	return a, nil
}
