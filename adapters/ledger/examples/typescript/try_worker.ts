// What examples_test.go runs against the local cloud: one task per story.

import assert from "node:assert/strict";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { Ambiguous, InputMismatch, Ledger, NothingChanged, Refused } from "./worker.js";

const [endpoint, table] = process.argv.slice(2);
assert(endpoint && table, "usage: node try_worker.js ENDPOINT TABLE");
const ledger = new Ledger(
  new DynamoDBClient({ endpoint, region: "us-east-1", credentials: { accessKeyId: "local", secretAccessKey: "local" } }),
  table,
);

async function expect<E extends Error>(kind: new (...args: any[]) => E, call: () => Promise<unknown>): Promise<E> {
  try {
    await call();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  throw new Error(`no ${kind.name}`);
}

class Cut extends Error {}

const broken = async (): Promise<string> => {
  throw new Cut("cut while waiting for the answer");
};
const refused = async (): Promise<string> => {
  throw new NothingChanged("card declined");
};

// Done, with a checkpoint.
let run = await ledger.begin("done", "m1", undefined, { task_type: "order", workflow_version: "3" });
assert.equal(await run.step("0001#charge", "charge_card", { cents: 4200 }, async (key) => "ch_" + key), "ch_done:0001#charge");
await run.checkpoint("s3://state/1", "0001#charge");
assert.equal(await run.step("0001#charge", "charge_card", { cents: 4200 }, broken), "ch_done:0001#charge");
await expect(InputMismatch, () => run.step("0001#charge", "charge_card", { cents: 1 }, broken));
assert(!(await expect(Refused, () => ledger.begin("done", "m1"))).ack);
await run.complete();
assert((await expect(Refused, () => ledger.begin("done", "m1"))).ack);

// Failed while calling: in doubt.
run = await ledger.begin("doubt", "m1");
await expect(Cut, () => run.step("0001#charge", "charge_card", {}, broken));
await expect(Ambiguous, () => run.step("0001#charge", "charge_card", {}, broken));
await run.fail({ class: "ambiguous_effect", code: "ECONNRESET", message: "cut", step: "0001#charge", tool: "charge_card", dependency: "payments" });

// Refused by the tool: nothing changed; and again after a redrive.
run = await ledger.begin("refused", "m1");
await expect(NothingChanged, () => run.step("0001#charge", "charge_card", {}, refused));
await run.fail({ class: "business_rule", code: "DECLINED", message: "card declined" });
const mark = { rec: "r_a", job: "j_1", n: 1, act: "retry" };
run = await ledger.begin("refused", "m2", mark);
await run.fail({ class: "business_rule", code: "DECLINED", message: "card declined" });
assert((await expect(Refused, () => ledger.begin("refused", "m3", mark))).ack);
await ledger.begin("refused", "m2", mark); // the same message again; left running

// Two deliveries at once: one of them calls.
let calls = 0;
const deliver = async (): Promise<void> => {
  const run = await ledger.begin("race", "m1");
  await run.step("0001#charge", "charge_card", {}, async () => "ch_" + ++calls);
  await run.complete();
};
await Promise.allSettled([deliver(), deliver(), deliver()]);
assert.equal(calls, 1);

// Has a receipt, then fails; the next worker is a Go one.
run = await ledger.begin("handed", "m1");
await run.step("0001#charge", "charge_card", { to: "Zoë <z@example.com>", cents: 4200, a: [1, null, true] }, async () => "ch_handed");
await run.fail({ class: "timeout", code: "ETIMEDOUT", message: "the next step" });

// Past its time: not begun, and not done with.
const late = { valid_until: new Date(Date.now() - 1000).toISOString() };
assert(!(await expect(Refused, () => ledger.begin("late", "m1", undefined, late))).ack);

// Began nothing.
run = await ledger.begin("nothing", "m1");
await run.fail({ class: "timeout", code: "ETIMEDOUT", message: "model did not answer", phase: "before_call", retryable: true });
console.log("ok");
