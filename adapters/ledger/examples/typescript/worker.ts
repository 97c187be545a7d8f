// Write the agent ledger from TypeScript with plain SDK calls. Copy and adapt.
//
//   const ledger = new Ledger(new DynamoDBClient({}), "agent-ledger");
//   const run = await ledger.begin(taskId, messageId, mark);  // may throw Refused
//   const receipt = await run.step("0003#charge", "charge_card", { cents: 4200 }, charge);
//   await run.checkpoint("s3://state/7", "0003#charge");
//   await run.complete();                                     // then delete the message
//
// The rules that make a worker safe to redrive, in the order of the code:
//
//  - one active run per task: the header is taken by a conditional write;
//  - `started` is durable before the call, the receipt before anything else;
//  - a receipt is returned instead of calling again;
//  - a call whose end nobody knows is never repeated: a person decides.
//
// Keep LEASE_MS longer than a task runs, or call run.renew() in between. A
// lease protects time, not effects: those are protected by the step's own row,
// of which there is one over all runs, moved by conditional writes only.

import { createHash, randomUUID } from "node:crypto";
import {
  ConditionalCheckFailedException,
  DynamoDBClient,
  GetItemCommand,
  UpdateItemCommand,
  type AttributeValue,
} from "@aws-sdk/client-dynamodb";
import { marshall, unmarshall } from "@aws-sdk/util-dynamodb";

const LEASE_MS = 5 * 60_000;
const MAX_RUN_MS = 15 * 60_000; // of writers that leave no lease

type Row = Record<string, any>;
type Mark = { rec: string; job: string; n: number; act: string; from?: string };
type EffectClass = "none" | "idempotent" | "mutating";

/** The task must not run now. If ack is true, delete the message: its work is
 *  done, or another copy of it is being worked on. */
export class Refused extends Error {
  readonly ack: boolean;
  constructor(why: string, ack: boolean) {
    super(why);
    this.ack = ack;
  }
}

/** Nobody knows whether the step took effect. Do not repeat it. */
export class Ambiguous extends Error {}

/** The step was carried out with another input. */
export class InputMismatch extends Error {}

/** Throw this from a tool that knows that nothing changed outside: the request
 *  was refused, or never sent. Only then may it be made again. */
export class NothingChanged extends Error {}

const at = (ms: number): string => new Date(ms).toISOString();

/** Canonical JSON (RFC 8785), as long as the input has only objects, arrays,
 *  strings, booleans, null and whole numbers below 2**53. */
export function canonical(value: unknown): string {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new Error("write fractions and large numbers as strings");
  }
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).filter(([, v]) => v !== undefined);
    fields.sort(([a], [b]) => (a < b ? -1 : 1)); // by UTF-16 units, as RFC 8785 asks
    return "{" + fields.map(([k, v]) => JSON.stringify(k) + ":" + canonical(v)).join(",") + "}";
  }
  return JSON.stringify(value ?? null);
}

export const inputHash = (value: unknown): string =>
  createHash("sha256").update(canonical(value)).digest("hex");

export class Ledger {
  readonly client: DynamoDBClient;
  readonly table: string;
  constructor(client: DynamoDBClient, table: string) {
    this.client = client;
    this.table = table;
  }

  async read(taskId: string, entry: string): Promise<Row> {
    const got = await this.client.send(
      new GetItemCommand({ TableName: this.table, Key: marshall({ task_id: taskId, entry }), ConsistentRead: true }),
    );
    return got.Item ? unmarshall(got.Item) : {};
  }

  /** Sets fields if the row is as `when` says (undefined: the attribute must
   *  not be there). False: it is not. `mark` is the name of the field that only
   *  this write sets so: if the answer to a first try was lost, the second fails
   *  its condition, and the mark shows that the first counted. */
  async write(taskId: string, entry: string, fields: Row, when: Row, mark: string, remove: string[] = []): Promise<boolean> {
    const names: Record<string, string> = {};
    const values: Record<string, AttributeValue> = {};
    const conditions: string[] = [];
    for (const [name, value] of Object.entries(fields)) {
      names["#" + name] = name;
      Object.assign(values, marshall({ [":s_" + name]: value }));
    }
    for (const [name, value] of Object.entries(when)) {
      names["#" + name] = name;
      if (value === undefined) {
        conditions.push(`attribute_not_exists(#${name})`);
      } else {
        conditions.push(`#${name} = :w_${name}`);
        Object.assign(values, marshall({ [":w_" + name]: value }));
      }
    }
    for (const name of remove) names["#" + name] = name;
    let update = "SET " + Object.keys(fields).map((n) => `#${n} = :s_${n}`).join(", ");
    if (remove.length > 0) update += " REMOVE " + remove.map((n) => "#" + n).join(", ");
    try {
      await this.client.send(
        new UpdateItemCommand({
          TableName: this.table,
          Key: marshall({ task_id: taskId, entry }),
          UpdateExpression: update,
          ConditionExpression: conditions.join(" AND "),
          ExpressionAttributeNames: names,
          ExpressionAttributeValues: values,
        }),
      );
      return true;
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
    }
    const row = await this.read(taskId, entry);
    return row[mark] === fields[mark] && (fields.status === undefined || row.status === fields.status);
  }

  /** Takes the task. `mark` is the parsed message attribute agent.redrive, if
   *  there is one; facts go to the header (task_type, tenant, ...). */
  async begin(taskId: string, messageId: string, mark?: Mark, facts: Row = {}): Promise<Run> {
    const header = await this.read(taskId, "task");
    if (header.status === "completed") throw new Refused("the task is completed", true);
    const redrives: Row = { ...header.redrives };
    if (mark) {
      // A number belongs to the message it was first run by. The broker may
      // deliver that one again; any other message is a second copy.
      const last = redrives[mark.rec];
      if (last && (last.n > mark.n || (last.n === mark.n && last.message_id !== messageId))) {
        throw new Refused("another copy of this redrive was run already", true);
      }
      redrives[mark.rec] = { n: mark.n, message_id: messageId };
    }
    if (header.status === "running") {
      const lease = Date.parse(header.lease_until ?? "");
      const last = Date.parse(header.updated_at ?? "");
      const until = !Number.isNaN(lease) ? lease : (Number.isNaN(last) ? Date.now() : last) + MAX_RUN_MS;
      if (until > Date.now()) throw new Refused(`another run may be going until ${at(until)}`, false);
    }
    const validUntil = Date.parse(facts.valid_until ?? header.valid_until ?? "");
    // Not acknowledged: let the broker dead-letter it, so that somebody learns of it.
    if (validUntil < Date.now()) throw new Refused(`the task is past its valid_until ${at(validUntil)}`, false);
    const fresh = Object.keys(header).length === 0;
    const run = new Run(this, taskId, header, messageId, mark);
    const fields: Row = {
      ...facts,
      status: "running",
      run_id: run.id,
      redrive_n: mark?.n ?? 0,
      redrives,
      runs: (header.runs ?? 0) + 1,
      token: run.token,
      lease_until: at(Date.now() + LEASE_MS),
      updated_at: at(Date.now()),
    };
    if (fresh) {
      // The promise that lets "no row" prove that nothing was begun. It is
      // about all runs, so it is given only for a task that is new.
      fields.intent_before_call = true;
      fields.first_run_at = at(Date.now());
    }
    const when: Row = fresh
      ? { entry: undefined }
      : { token: header.token, run_id: header.run_id, status: header.status, lease_until: header.lease_until };
    if (!(await this.write(taskId, "task", fields, when, "token", ["last_error"]))) {
      throw new Refused("another run was faster", false);
    }
    return run;
  }
}

export class Run {
  readonly id = "run_" + randomUUID();
  /** From here this run may continue. */
  readonly resume: Row | undefined;
  token = randomUUID() as string;
  readonly ledger: Ledger;
  readonly taskId: string;
  readonly workflowVersion: string;

  private readonly send: Row;

  constructor(ledger: Ledger, taskId: string, header: Row, messageId: string, mark?: Mark) {
    this.ledger = ledger;
    this.taskId = taskId;
    this.send = { redrive_n: mark?.n ?? 0, message_id: messageId };
    const have: Row | undefined = header.checkpoint;
    // The mark of a resume names the checkpoint that was decided on. Only what a
    // run of the same message wrote since goes further.
    const same = have?.redrive_n === this.send.redrive_n && have?.message_id === messageId;
    this.resume = !mark?.from || have?.ref === mark.from || same ? have : { ref: mark.from };
    this.workflowVersion = header.workflow_version ?? "";
  }

  /** Writes the header while this run is the active one. */
  private async header(fields: Row, remove: string[] = []): Promise<void> {
    const token = randomUUID();
    const all = { updated_at: at(Date.now()), ...fields, token };
    const when = { token: this.token, run_id: this.id };
    if (!(await this.ledger.write(this.taskId, "task", all, when, "token", remove))) {
      throw new Refused("the run has lost its lease", false);
    }
    this.token = token;
  }

  async renew(): Promise<void> {
    await this.header({ lease_until: at(Date.now() + LEASE_MS) });
  }

  /** Calls call(idempotencyKey) once and returns its receipt. */
  async step(
    stepId: string,
    tool: string,
    input: unknown,
    call: (idempotencyKey: string) => Promise<string>,
    effectClass: EffectClass = "mutating",
  ): Promise<string> {
    const entry = "step#" + stepId;
    const hash = inputHash(input);
    const key = `${this.taskId}:${stepId}`; // the same on every attempt and redrive
    const row = await this.ledger.read(this.taskId, entry);
    const known = Object.keys(row).length > 0;
    if (row.receipt || row.status === "already_exists") {
      if (row.input_hash !== hash) throw new InputMismatch(stepId);
      return row.receipt ?? "";
    }
    const unchanged = String(row.status).startsWith("failed_") && row.effect === "none";
    if (known && row.status !== "planned" && !unchanged && row.effect_class !== "none") {
      throw new Ambiguous(`${stepId}: ${row.status} in ${row.run_id}, no receipt`);
    }

    await this.renew();
    const intent = randomUUID();
    const started = {
      step_id: stepId, run_id: this.id, status: "started", attempt: (row.attempt ?? 0) + 1, input_hash: hash, tool,
      effect_class: effectClass, idempotency_key: key, started_at: at(Date.now()), intent,
    };
    // The row must still be as it was considered: of two runs one can call.
    const when: Row = known ? { intent: row.intent, status: row.status, run_id: row.run_id } : { entry: undefined };
    if (!(await this.ledger.write(this.taskId, entry, started, when, "intent", ["ended_at", "effect", "receipt"]))) {
      throw new Ambiguous(`${stepId}: another run has begun it`);
    }
    let receipt = "";
    let failure: unknown;
    let failed = false;
    const outcome: Row = { intent, status: "succeeded" };
    try {
      receipt = await call(key);
      if (receipt) outcome.receipt = receipt;
    } catch (error) {
      failed = true;
      failure = error;
      // Unless the tool knows better, it may have taken effect before it failed.
      Object.assign(outcome, error instanceof NothingChanged ? { status: "failed_permanent", effect: "none" } : { status: "ambiguous" });
    }
    outcome.ended_at = at(Date.now());
    if (!(await this.ledger.write(this.taskId, entry, outcome, { intent, receipt: undefined }, "intent"))) {
      throw new Ambiguous(`${stepId}: its row has moved on`);
    }
    if (failed) throw failure;
    return receipt;
  }

  /** Say this after the state is durable under ref. Its lineage is this run
   *  alone, which is always safe; the Go kit knows when more may be in it. */
  async checkpoint(ref: string, stepId: string): Promise<void> {
    await this.header({
      lease_until: at(Date.now() + LEASE_MS),
      checkpoint: {
        ref, step_id: stepId, run_id: this.id, lineage: [this.id], workflow_version: this.workflowVersion, at: at(Date.now()),
        ...this.send,
      },
    });
  }

  /** error.class is timeout, dependency_unavailable, permission, invalid_input,
   *  output_contract, policy_limit, business_rule, ambiguous_effect or critical.
   *  Then let the message be redelivered or dead-lettered. */
  async fail(error: {
    class: string; code: string; message: string; step?: string; tool?: string; dependency?: string;
    retryable?: boolean; phase?: "before_call" | "during_call" | "after_call";
  }): Promise<void> {
    const given = Object.fromEntries(Object.entries(error).filter(([, v]) => v !== undefined));
    await this.header({ status: "failed", last_error: { ...given, message: error.message.slice(0, 1000) } }, ["lease_until"]);
  }

  async complete(): Promise<void> {
    await this.header({ status: "completed" }, ["lease_until"]);
  }
}
