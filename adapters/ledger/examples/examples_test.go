// Package examples_test runs the copy-paste examples against the local cloud.
package examples_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/ledger"
	"github.com/dlqbridge/dlqbridge/localstack"
)

const tableName = "agent-ledger"

func TestPythonExample(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: it is not on PATH")
	}
	if err := exec.CommandContext(t.Context(), python, "-c", "import boto3").Run(); err != nil {
		t.Skip("needs boto3: python3 does not have it")
	}
	stories(t, "python", python, "try_worker.py")
}

// The packages of the TypeScript example are where npm puts them, or where the
// checks do.
var packages = []string{"typescript/node_modules", "../../../.cache/typescript/node_modules"}

func TestTypeScriptExample(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node: it is not on PATH")
	}
	installed := slices.IndexFunc(packages, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "typescript", "bin", "tsc"))
		return err == nil
	})
	if installed < 0 {
		t.Skip("needs the packages of typescript/package.json; npm ci in that directory gets them")
	}
	modules, err := filepath.Abs(packages[installed])
	if err != nil {
		t.Fatal(err)
	}
	// Compiled elsewhere, so that nothing is left behind.
	dir := t.TempDir()
	for _, name := range []string{"package.json", "tsconfig.json", "worker.ts", "try_worker.ts"} {
		text, err := os.ReadFile(filepath.Join("typescript", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	compile := exec.CommandContext(t.Context(), node, filepath.Join("node_modules", "typescript", "bin", "tsc"))
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	stories(t, dir, node, "try_worker.js")
}

// stories runs the program of one language against a local cloud and reads back
// what its tasks left in the ledger.
func stories(t *testing.T, dir, interpreter, program string) {
	t.Helper()
	cloud := localstack.New(localstack.Options{})
	t.Cleanup(cloud.Close)
	client := dynamodb.NewFromConfig(cloud.AWSConfig())
	if _, err := client.CreateTable(t.Context(), ledger.TableSchema(tableName)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	run := exec.CommandContext(t.Context(), interpreter, program, server.URL, tableName)
	run.Dir = dir
	run.Env = append(run.Environ(), "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	reader, err := ledger.NewReader(ledger.ReaderOptions{Client: client, Table: tableName})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(task string) dlqbridge.Testimony {
		return reader.Ask(t.Context(), []dlqbridge.Question{{TaskID: task, Now: time.Now()}})[0]
	}
	for task, want := range map[string]dlqbridge.Effect{
		"done": dlqbridge.EffectConfirmed, "doubt": dlqbridge.EffectUnknown, "refused": dlqbridge.EffectNone, "nothing": dlqbridge.EffectNone,
		"race": dlqbridge.EffectConfirmed, "late": dlqbridge.EffectUnknown,
	} {
		if got := dlqbridge.Fold(dlqbridge.FoldInput{Findings: ask(task).Findings}).State; got != want {
			t.Errorf("%s: %s, want %s", task, got, want)
		}
	}
	done := ask("done")
	if done.Completed == nil || done.Checkpoint == nil || done.Checkpoint.Ref != "s3://state/1" || !done.Checkpoint.Covers(done.Findings[0]) {
		t.Errorf("done: %+v", done)
	}
	if f := ask("nothing").Failure; f == nil || f.Cause != dlqbridge.CauseTimeout || f.Phase != "before_call" || f.Retryable == nil || !*f.Retryable {
		t.Errorf("nothing: %+v", f)
	}
	again := ask("refused")
	if again.SeenRedriveN != 1 || again.Runs != 3 || !again.RunningUntil.After(time.Now()) {
		t.Errorf("refused: %+v", again)
	}

	// The kit goes on where the other language stopped: the same hash, the same receipt.
	kit, err := ledger.NewKit(ledger.Options{Client: client, Table: tableName})
	if err != nil {
		t.Fatal(err)
	}
	r, err := kit.Begin(t.Context(), ledger.Task{ID: "handed", MessageID: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	spec := ledger.StepSpec{ID: "0001#charge", Tool: "charge_card", Input: map[string]any{
		"a": []any{1, nil, true}, "cents": 4200, "to": "Zoë <z@example.com>",
	}}
	got, err := r.Step(t.Context(), spec, func(context.Context, ledger.Call) (ledger.Result, error) {
		t.Error("the card was charged again")
		return ledger.Result{}, nil
	})
	if err != nil || !got.Reused || got.Receipt != "ch_handed" {
		t.Errorf("%+v, %v", got, err)
	}
}
