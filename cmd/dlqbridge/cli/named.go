package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// kind is a kind of thing that a person names by its id.
type kind struct {
	word, form string
	// list is the command that shows what there is.
	list string
}

var (
	recordKind = kind{"record", "r_…", "dlqbridge records list"}
	jobKind    = kind{"job", "j_…", "dlqbridge redrive list"}
)

// one is the argument check of commands about one of them.
func (k kind) one(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 1:
		return nil
	case 0:
		return k.unnamed("name one " + k.word)
	}
	return k.unnamed(fmt.Sprintf("name one %s, not %d", k.word, len(args)))
}

// some is the argument check of commands about one or more of them.
func (k kind) some(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return k.unnamed("name at least one " + k.word)
	}
	return nil
}

func (k kind) unnamed(text string) error {
	return usagef("give its id ("+k.form+"); `"+k.list+"` shows them", "%s", text)
}

// missing is one that is not there.
func (k kind) missing(id string) error {
	return hinted(&missingError{k.word, id}, "`"+k.list+"` shows what there is")
}
