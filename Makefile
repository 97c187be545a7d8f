# make prints this help. `make check` is what CI runs.

.DEFAULT_GOAL := help
SHORT ?=

help: ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

check: ## every check, the same as CI
	./.ci/run

test: ## the quick tests, nothing but Go needed
	go test ./...

race: ## the tests with the race detector (needs a C compiler)
	go test -race ./...

fmt: ## format all Go code
	gofmt -w $$(git ls-files '*.go')

lint: ## the linter of CI, pinned in .ci/run
	golangci-lint run

bench: ## all benchmarks; ratios compare with a floor in the same run
	go test -run '^$$' -bench . ./...

soak: ## kill loops and long runs (SHORT=1: the short form of CI)
	DLQBRIDGE_SOAK=$(if $(SHORT),short,long) go test -count=1 -timeout 60m -run 'Soak|KillMatrix' ./...

scale: ## plan, list and send a million records (N=100000: so many); says memory and time
	DLQBRIDGE_SCALE=$(or $(N),1000000) go test -count=1 -v -timeout 180m -run 'SoakRedriveStaysFlat' ./cmd/dlqbridge

demo: ## the main job on the embedded local cloud
	go run ./cmd/demo

.PHONY: help check test race fmt lint bench soak scale demo
