// Package redrive sends work back to where it belongs: one cause and one
// destination per job, under a pace, only what somebody authorised, and each
// redrive number once.
//
// # A record in a job
//
//	           authorise            claim              note: sent
//	waiting ───────────▶ authorized ─────▶ redriving ──────────────▶ redriving
//	   ▲                  │  ▲               │ │  │                    │
//	   │ lapse            │  │ release       │ │  │ answer lost        │ outcome
//	   └──────────────────┘  └───────────────┘ │  ▼                    ▼
//	                          surely not sent  │ in doubt          completed
//	                                           │  │  settled by    unconfirmed
//	                                           │  │  evidence      recurred
//	                                           ▼  ▼                (by intake)
//	                                         redriving
//
// # The stages
//
// Each stage is a file, and each says what a crash before and after it means.
//
//   - plan.go chooses candidates and says of each whether it can be sent;
//   - authorize.go is the rule of who may be authorised; grant.go does it;
//   - gate.go reads controls, job, holds and stores again, right before
//   - claim.go gives the record to the job for redrive number n;
//   - journal.go writes the open batch on the destination's lease item;
//   - send.go makes exactly one request of it;
//   - note.go writes down what the broker answered;
//   - observe.go moves the record by the outcome.
//
// Around them: run.go takes the lease and makes the job, runner.go runs it,
// canary.go sends a few first and looks what became of them, adopt.go takes
// over from one that died, settle.go says how a doubt ends, expire.go closes
// work that lost its sense, pace.go says when a message may go, lineup.go keeps
// groups in order, moves.go has the moves as pure functions, document.go makes
// a plan a file that others can read and run, approve.go has the second person
// who agrees to it, and ahead.go reads several chunks of records at once.
//
// A new kind of action is a decision that [MayAuthorize] lets through, a place
// that action.go names and a message that the gate makes. ACTIONS.md says what
// each of them sends.
package redrive
