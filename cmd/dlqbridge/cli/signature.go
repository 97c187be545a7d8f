package cli

import "strings"

// signature checks what a person writes for a group of failures: a wrong word
// would select nothing, and nothing to do looks like success. Empty is none.
func signature(text string) error {
	if text == "" || strings.HasPrefix(text, "sg_") {
		return nil
	}
	return usagef("signatures begin with sg_, as `dlqbridge records groups` shows them", "--signature %q is none", text)
}
