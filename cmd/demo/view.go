package main

import (
	"encoding/json"
	"fmt"
)

// wasRedriven reads from a record's document whether it was ever sent home.
func wasRedriven(document string) (bool, error) {
	var r struct {
		Redrives []struct{ Outcome string }
	}
	if err := json.Unmarshal([]byte(document), &r); err != nil {
		return false, fmt.Errorf("records show: %w", err)
	}
	for _, send := range r.Redrives {
		if send.Outcome != "refused" {
			return true, nil
		}
	}
	return false, nil
}
