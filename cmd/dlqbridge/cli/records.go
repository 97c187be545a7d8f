package cli

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/screen"
	"github.com/dlqbridge/dlqbridge/cmd/dlqbridge/wire"
)

func (s *session) records() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Look at records: list, show, history, payload, explain, groups, regroup, export",
		RunE:  group,
		Args:  cobra.ArbitraryArgs,
	}
	cmd.AddCommand(s.recordsList(), s.recordsShow(), s.recordsExplain(), s.recordsHistory(), s.recordsPayload(), s.recordsGroups(), s.recordsRegroup(), s.recordsExport())
	return cmd
}

// oneRecord is the argument check of commands about one record.
func oneRecord(cmd *cobra.Command, args []string) error {
	if err := recordKind.one(cmd, args); err != nil {
		return err
	}
	return recordIDs(args)
}

// record reads one whole record.
func (s *session) record(cmd *cobra.Command, id string) (dlqbridge.Case, error) {
	b, err := s.open(cmd.Context(), nil)
	if err != nil {
		return dlqbridge.Case{}, err
	}
	c, err := b.Store.Case(cmd.Context(), id)
	if wire.Absent(err) {
		return c, hinted(&missingError{"record", id}, "`dlqbridge records list` shows what there is; `--all` adds closed records")
	}
	return c, err
}

// entry is one move in a record's history, with what the person wrote.
type entry struct {
	Version   int                 `json:"version"`
	At        string              `json:"at"`
	By        string              `json:"by"`
	Verb      dlqbridge.Verb      `json:"verb"`
	From      *string             `json:"from"`
	To        dlqbridge.Status    `json:"to"`
	Why       *string             `json:"why"`
	Reason    *string             `json:"reason"`
	Evidence  *string             `json:"evidence"`
	ActorNote *string             `json:"actorNote"`
	Fix       *dlqbridge.Fix      `json:"fix"`
	Cause     *string             `json:"cause"`
	Owner     *string             `json:"owner"`
	Findings  []dlqbridge.Finding `json:"findings,omitempty"`
	// Corrects: the findings take the place of what people stated before.
	Corrects bool `json:"corrects,omitempty"`
	Approval bool `json:"approval,omitempty"`
	// Second is who else agreed, by approving the plan.
	Second  *secondDoc `json:"second,omitempty"`
	Arrival *string    `json:"arrival"`
	Context *string    `json:"context"`
	Job     *string    `json:"job"`
	N       int        `json:"n,omitempty"`
	// Repair is the payload version that the move put in force.
	Repair *dlqbridge.Repair `json:"repair,omitempty"`
}

// secondDoc is a second person's approval of the plan that a send belonged to.
type secondDoc struct {
	By     string  `json:"by"`
	At     string  `json:"at"`
	Plan   string  `json:"plan"`
	Reason *string `json:"reason"`
}

func history(c dlqbridge.Case) []entry {
	out := make([]entry, len(c.History))
	for i, m := range c.History {
		e := entry{
			Version: m.Version, At: dlqbridge.FormatTime(m.At), By: m.By, Verb: m.Verb, From: orNull(string(m.From)), To: m.To, Why: orNull(m.Why),
			Arrival: orNull(m.Arrival), Context: orNull(m.Context), Job: orNull(m.Job), N: m.N,
		}
		if j := slices.IndexFunc(c.Notes, func(n dlqbridge.Note) bool { return n.Name == m.Note }); m.Note != "" && j >= 0 {
			n := c.Notes[j]
			e.Reason, e.Evidence, e.ActorNote = orNull(n.Reason), orNull(n.Evidence), orNull(n.Actor.Note)
			e.Fix, e.Cause, e.Owner, e.Findings, e.Approval = n.Fix, orNull(string(n.Cause)), orNull(n.Owner), n.Findings, n.Approval
			if a := n.Second; a != nil {
				e.Second = &secondDoc{a.By.String(), dlqbridge.FormatTime(a.At), a.Plan, orNull(a.Reason)}
			}
			e.Repair, e.Corrects = n.Repair, n.Corrects
		}
		out[i] = e
	}
	return out
}

func (s *session) recordsHistory() *cobra.Command {
	return &cobra.Command{
		Use:     "history ID",
		Short:   "Show who did what to a record, when and why",
		Long:    "Shows every move of a record from its first letter on: who, when, from which status to which, and why. No entry is ever lost or changed.",
		Example: "  dlqbridge records history r_…\n  dlqbridge records history r_… -o json | jq '.history[] | select(.by | startswith(\"arn:\"))'",
		Args:    oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.record(cmd, args[0])
			if err != nil {
				return err
			}
			entries := history(c)
			return s.print(map[string]any{"id": args[0], "history": entries}, func(out *screen.Screen) {
				for _, e := range entries {
					out.Printf("%s  %s  %s", e.At, screen.Styled{Style: screen.Bold, Text: string(e.Verb)}, statusCell(e.To))
					out.Printf("  by %s\n", e.By)
					for _, line := range e.lines() {
						out.Printf("    %s\n", line)
					}
				}
			})
		},
	}
}

// lines is what there is to say about an entry besides its head.
func (e entry) lines() []string {
	var out []string
	add := func(name string, value *string) {
		if value != nil {
			out = append(out, name+": "+*value)
		}
	}
	if e.Reason == nil {
		add("why", e.Why)
	}
	add("reason", e.Reason)
	add("evidence", e.Evidence)
	add("actor's note", e.ActorNote)
	if e.Fix != nil {
		out = append(out, "fix: "+e.Fix.String())
	}
	add("cause", e.Cause)
	add("owner", e.Owner)
	if r := e.Repair; r != nil {
		how := "taken from " + r.Base
		if r.Form != "" {
			how = strings.ReplaceAll(string(r.Form), "_", " ") + " " + short(r.PatchSHA256)
		}
		out = append(out, fmt.Sprintf("payload version %d: sha256 %s, %d bytes, %s", r.Version, short(r.SHA256), r.Bytes, how))
	}
	for _, f := range e.Findings {
		line := fmt.Sprintf("states: step %s is %s", f.Step, f.State)
		if e.Corrects {
			line += ", in place of what people stated of it before"
		}
		out = append(out, line)
	}
	if e.Approval && e.From != nil && string(e.To) == *e.From { // it moved nothing yet
		out = append(out, "the first of two approvals")
	}
	if e.Second != nil {
		out = append(out, fmt.Sprintf("second person: %s approved plan %s", e.Second.By, e.Second.Plan))
	}
	if e.Job != nil {
		out = append(out, fmt.Sprintf("job %s, redrive %d", *e.Job, e.N))
	}
	return out
}

// short is the beginning of a hash, which is enough to tell two apart.
func short(sha256 string) string { return sha256[:min(12, len(sha256))] }

func (s *session) recordsPayload() *cobra.Command {
	var raw bool
	var arrival string
	var version int
	cmd := &cobra.Command{
		Use:   "payload ID",
		Short: "Show the exact bytes of a record's letter",
		Long: `Shows the body and the attributes of what would be sent back: a record's newest
letter, or what a repair made of it. --version shows an earlier version (1 is the
letter as it came), --arrival one of several letters. Without a flag they are escaped for your terminal; --raw
writes the body byte for byte, and -o json has everything in base64.`,
		Example: `  dlqbridge records payload r_…
  dlqbridge records payload r_… --raw > body.bin
  diff <(dlqbridge records payload r_… --version 1) <(dlqbridge records payload r_…)
  dlqbridge records payload r_… -o json | jq -r '.attributes[].name'`,
		Args: oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			if raw && s.json() {
				return usagef("-o json has the body in base64", "--raw and -o json contradict each other")
			}
			if cmd.Flags().Changed("version") && version < 1 {
				return usagef("versions count from 1, which is the letter as it came", "--version %d is none", version)
			}
			if arrival != "" && version != 0 {
				return usagef("keep one of them", "--arrival and --version contradict each other")
			}
			c, err := s.record(cmd, args[0])
			if err != nil {
				return err
			}
			key := c.Control.PayloadName()
			switch {
			case arrival != "":
				if key = arrival; c.Arrival(key) == nil {
					return usagef("`dlqbridge records show "+args[0]+" -o json` lists them", "record %s has no arrival %q", args[0], key)
				}
			case version != 0:
				versions := c.PayloadVersions()
				i := slices.IndexFunc(versions, func(v dlqbridge.PayloadVersion) bool { return v.Version == version })
				if i < 0 {
					return usagef("it is at version "+itoa(c.Control.PayloadVersion), "record %s has no payload version %d", args[0], version)
				}
				key = versions[i].Payload
			default:
				version = c.Control.PayloadVersion
			}
			p, err := s.bridge.Store.Payload(cmd.Context(), args[0], key)
			if err != nil {
				return fmt.Errorf("payload of %s: %w", args[0], err)
			}
			if raw {
				_, err := s.stdout.Write(p.Body)
				return err
			}
			return s.print(payloadDocument(args[0], key, version, p), func(out *screen.Screen) { printPayload(out, p) })
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the body byte for byte")
	cmd.Flags().StringVar(&arrival, "arrival", "", "of this arrival instead of what would be sent")
	cmd.Flags().IntVar(&version, "version", 0, "of this payload version instead; 1 is the letter as it came")
	return cmd
}

// payloadDoc is a payload for machines; bytes are base64.
type payloadDoc struct {
	ID string `json:"id"`
	// Arrival is the key of the letter, or the name of a repaired version;
	// Version its number, 0 where a letter was asked for.
	Arrival    string         `json:"arrival"`
	Version    int            `json:"version"`
	SHA256     string         `json:"sha256"`
	Bytes      int            `json:"bytes"`
	GroupKey   *string        `json:"groupKey"`
	Body       string         `json:"body"`
	Attributes []attributeDoc `json:"attributes"`
}

type attributeDoc struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

func payloadDocument(id, arrival string, version int, p dlqbridge.Payload) payloadDoc {
	d := payloadDoc{
		ID: id, Arrival: arrival, Version: version, SHA256: p.Hash(), Bytes: p.Size(), GroupKey: orNull(p.GroupKey),
		Body: base64.StdEncoding.EncodeToString(p.Body), Attributes: []attributeDoc{},
	}
	for _, a := range p.Attributes {
		d.Attributes = append(d.Attributes, attributeDoc{a.Name, a.Type, base64.StdEncoding.EncodeToString(a.Value)})
	}
	return d
}

func printPayload(out *screen.Screen, p dlqbridge.Payload) {
	for _, a := range p.Attributes {
		if strings.HasPrefix(a.Type, "Binary") {
			out.Printf("%s (%s): %d bytes\n", screen.Styled{Style: screen.Bold, Text: a.Name}, a.Type, len(a.Value))
			continue
		}
		out.Printf("%s (%s): %s\n", screen.Styled{Style: screen.Bold, Text: a.Name}, a.Type, string(a.Value))
	}
	if p.GroupKey != "" {
		out.Printf("%s: %s\n", screen.Styled{Style: screen.Bold, Text: "group"}, p.GroupKey)
	}
	out.Printf("%s (%d bytes)\n", screen.Styled{Style: screen.Bold, Text: "body"}, len(p.Body))
	for line := range strings.Lines(string(p.Body)) {
		out.Printf("  %s\n", strings.TrimSuffix(line, "\n"))
	}
}
