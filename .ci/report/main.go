// Report reads `go test -json` from standard input, prints what a person wants
// to see of it, and closes with the line "N passed, N failed, N skipped".
//
// It exits 1 if a test failed, if no test ran, or if a test skipped although
// the program that it says it needs is on this machine: a skip must never hide
// in CI. Tests say it as `needs PROGRAM: …`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

var needs = regexp.MustCompile(`needs ([a-z0-9_.+-]+)(?: \(([^)]*)\))?:`)

func main() {
	output := map[string][]string{}
	var passed, failed, skipped int
	var failures, hidden []string
	slow := map[string]float64{}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // a build error comes as plain text
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			output[key] = append(output[key], e.Output)
			if e.Action == "build-output" {
				fmt.Print(e.Output)
			}
			if strings.Contains(e.Output, "ratio") && strings.Contains(e.Output, "Benchmark") {
				fmt.Print(e.Output)
			}
		case "pass", "fail", "skip":
			if e.Test == "" {
				fmt.Printf("%-4s %s  %.1fs\n", e.Action, e.Package, e.Elapsed)
				if e.Action == "fail" && len(output[key]) > 0 {
					failures = append(failures, key)
				}
				continue
			}
			slow[key] = e.Elapsed
			switch e.Action {
			case "pass":
				passed++
				delete(output, key)
			case "fail":
				failed++
				failures = append(failures, key)
			case "skip":
				skipped++
				text := strings.Join(output[key], "")
				if m := needs.FindStringSubmatch(text); m != nil {
					if _, err := exec.LookPath(m[1]); err == nil {
						hidden = append(hidden, key+": "+strings.TrimSpace(text))
					}
				}
				fmt.Printf("skip %s\n%s", key, text)
			}
		}
	}
	for _, key := range failures {
		fmt.Printf("\nFAIL %s\n%s", key, strings.Join(output[key], ""))
	}
	names := make([]string, 0, len(slow))
	for k, s := range slow {
		if s >= 5 && !strings.Contains(k, "/") {
			names = append(names, k)
		}
	}
	sort.Slice(names, func(i, j int) bool { return slow[names[i]] > slow[names[j]] })
	for _, k := range names {
		fmt.Printf("slow %s  %.1fs\n", k, slow[k])
	}
	for _, h := range hidden {
		fmt.Printf("skipped although its program is here: %s\n", h)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed+len(hidden), skipped)
	if failed > 0 || len(failures) > 0 || len(hidden) > 0 || passed == 0 || in.Err() != nil {
		os.Exit(1)
	}
}
