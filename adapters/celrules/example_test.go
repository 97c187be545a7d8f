package celrules_test

import (
	"fmt"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/celrules"
)

func Example() {
	rules, err := celrules.Compile([]celrules.Rule{
		{When: `failure.code == "E_SCHEMA_17"`, Cause: dlqbridge.CauseInvalidInput},
		{When: `failure.tool == "crm" && failure.message.contains("quota")`, Cause: dlqbridge.CausePolicyLimit},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cause, rule, ok := rules.Classify("orders", dlqbridge.Task{}, dlqbridge.Failure{Tool: "crm", Message: "quota of today is used"}, nil)
	fmt.Println(cause, ok, "by", rules.Describe(rule))

	_, err = celrules.Compile([]celrules.Rule{{When: `failure.code = "E_SCHEMA_17"`, Cause: dlqbridge.CauseInvalidInput}})
	fmt.Println(err)
	// Output:
	// policy_limit true by rule 2: failure.tool == "crm" && failure.message.contains("quota")
	// rule 1: line 1:14: Syntax error: token recognition error at: '= '; compare with ==
}
