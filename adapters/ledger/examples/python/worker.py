"""Write the agent ledger from Python with plain boto3 calls. Copy and adapt.

    ledger = Ledger(boto3.client("dynamodb"), "agent-ledger")
    run = ledger.begin(task_id, message_id, mark)   # may raise Refused
    receipt = run.step("0003#charge", "charge_card", {"cents": 4200}, charge)
    run.checkpoint("s3://state/7", "0003#charge")
    run.complete()                                  # then delete the message

The rules that make a worker safe to redrive, in the order of the code:

* one active run per task: the header is taken by a conditional write;
* `started` is durable before the call, the receipt before anything else;
* a receipt is returned instead of calling again;
* a call whose end nobody knows is never repeated: a person decides.

Keep LEASE longer than a task runs, or call run.renew() in between. A lease
protects time, not effects: those are protected by the step's own row, of which
there is one over all runs, moved by conditional writes only.
"""

import hashlib
import json
import uuid
from datetime import datetime, timedelta, timezone

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

LEASE = timedelta(minutes=5)


class Refused(Exception):
    """The task must not run now. If ack is true, delete the message: its work
    is done, or another copy of it is being worked on."""

    def __init__(self, why, ack):
        super().__init__(why)
        self.ack = ack


class Ambiguous(Exception):
    """Nobody knows whether the step took effect. Do not repeat it."""


class InputMismatch(Exception):
    """The step was carried out with another input."""


class NothingChanged(Exception):
    """Raise this from a tool that knows that nothing changed outside: the
    request was refused, or never sent. Only then may it be made again."""


def now():
    return datetime.now(timezone.utc)


def text(moment):
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(value):
    """A time as the ledger has it; None if there is none or it is malformed."""
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None


def input_hash(value):
    """SHA-256 of canonical JSON (RFC 8785), as long as the input has only
    objects, lists, strings, booleans, null and whole numbers below 2**53."""

    def check(v):
        if isinstance(v, float) or (isinstance(v, int) and abs(v) >= 2**53):
            raise ValueError("write fractions and large numbers as strings")
        for inner in v.values() if isinstance(v, dict) else v if isinstance(v, list) else ():
            check(inner)

    check(value)
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class Ledger:
    def __init__(self, client, table):
        self.client, self.table = client, table

    def key(self, task_id, entry):
        return {"task_id": {"S": task_id}, "entry": {"S": entry}}

    def read(self, task_id, entry):
        got = self.client.get_item(TableName=self.table, Key=self.key(task_id, entry), ConsistentRead=True)
        return {k: TypeDeserializer().deserialize(v) for k, v in got.get("Item", {}).items()}

    def write(self, task_id, entry, fields, when, mark, remove=()):
        """Sets fields if the row is as `when` says (None: the attribute must
        not be there). False: it is not. `mark` is the name of the field that
        only this write sets so: if the answer to a first try was lost, the
        second fails its condition, and the mark shows that the first counted."""
        names, values, conditions = {}, {}, []
        for name, value in fields.items():
            names["#" + name], values[":s_" + name] = name, TypeSerializer().serialize(value)
        for name, value in when.items():
            names["#" + name] = name
            if value is None:
                conditions.append(f"attribute_not_exists(#{name})")
            else:
                conditions.append(f"#{name} = :w_{name}")
                values[":w_" + name] = TypeSerializer().serialize(value)
        update = "SET " + ", ".join(f"#{n} = :s_{n}" for n in fields)
        for name in remove:
            names["#" + name] = name
        if remove:
            update += " REMOVE " + ", ".join("#" + n for n in remove)
        try:
            self.client.update_item(
                TableName=self.table, Key=self.key(task_id, entry), UpdateExpression=update,
                ConditionExpression=" AND ".join(conditions),
                ExpressionAttributeNames=names, ExpressionAttributeValues=values,
            )
            return True
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
        row = self.read(task_id, entry)
        return row.get(mark) == fields[mark] and row.get("status") == fields.get("status", row.get("status"))

    def begin(self, task_id, message_id, mark=None, **facts):
        """Takes the task. `mark` is the decoded JSON of the message attribute
        agent.redrive, if it has one; facts go to the header (task_type, tenant,
        idempotency_key, workflow_version, ...)."""
        header = self.read(task_id, "task")
        if header.get("status") == "completed":
            raise Refused("the task is completed", ack=True)
        redrives = header.get("redrives", {})
        if mark:
            # A number belongs to the message it was first run by. The broker may
            # deliver that one again; any other message is a second copy.
            last = redrives.get(mark["rec"])
            if last and (last["n"] > mark["n"] or (last["n"] == mark["n"] and last["message_id"] != message_id)):
                raise Refused("another copy of this redrive was run already", ack=True)
            redrives[mark["rec"]] = {"n": mark["n"], "message_id": message_id}
        if header.get("status") == "running":
            until = moment(header.get("lease_until"))
            if until is None:  # a writer without leases: wait its longest run
                until = (moment(header.get("updated_at")) or now()) + timedelta(minutes=15)
            if until > now():
                raise Refused(f"another run may be going until {text(until)}", ack=False)
        valid_until = moment(facts.get("valid_until") or header.get("valid_until"))
        if valid_until and valid_until < now():
            # Not acknowledged: let the broker dead-letter it, so that somebody learns of it.
            raise Refused(f"the task is past its valid_until {text(valid_until)}", ack=False)
        run = Run(self, task_id, header, message_id, mark)
        fields = {
            "status": "running", "run_id": run.id, "redrive_n": mark["n"] if mark else 0, "redrives": redrives,
            "runs": int(header.get("runs", 0)) + 1, "token": run.token,
            "lease_until": text(now() + LEASE), "updated_at": text(now()), **facts,
        }
        if not header:
            # The promise that lets "no row" prove that nothing was begun. It is
            # about all runs, so it is given only for a task that is new.
            fields["intent_before_call"] = True
            fields["first_run_at"] = text(now())
            when = {"entry": None}
        else:
            when = {name: header.get(name) for name in ("token", "run_id", "status", "lease_until")}
        if not self.write(task_id, "task", fields, when, "token", remove=["last_error"]):
            raise Refused("another run was faster", ack=False)
        return run


class Run:
    def __init__(self, ledger, task_id, header, message_id, mark):
        self.ledger, self.task_id = ledger, task_id
        self.id, self.token = "run_" + uuid.uuid4().hex, uuid.uuid4().hex
        self.send = {"redrive_n": mark["n"] if mark else 0, "message_id": message_id}
        self.resume = header.get("checkpoint")  # from here this run may continue
        asked = mark.get("from") if mark else None
        if asked:
            # The mark of a resume names the checkpoint that was decided on. Only
            # what a run of the same message wrote since goes further.
            have = self.resume or {}
            if have.get("ref") != asked and {k: have.get(k) for k in self.send} != self.send:
                self.resume = {"ref": asked}
        self.workflow_version = header.get("workflow_version", "")

    def header(self, fields, remove=()):
        """Writes the header while this run is the active one."""
        token = uuid.uuid4().hex
        fields = {"updated_at": text(now()), "token": token, **fields}
        if not self.ledger.write(self.task_id, "task", fields, {"token": self.token, "run_id": self.id}, "token", remove):
            raise Refused("the run has lost its lease", ack=False)
        self.token = token

    def renew(self):
        self.header({"lease_until": text(now() + LEASE)})

    def step(self, step_id, tool, value, call, effect_class="mutating"):
        """Calls call(idempotency_key) once and returns its receipt."""
        entry, digest = "step#" + step_id, input_hash(value)
        key = f"{self.task_id}:{step_id}"  # the same on every attempt and redrive
        row = self.ledger.read(self.task_id, entry)
        if row.get("receipt") or row.get("status") == "already_exists":
            if row.get("input_hash") != digest:
                raise InputMismatch(step_id)
            return row.get("receipt", "")
        unchanged = str(row.get("status", "")).startswith("failed_") and row.get("effect") == "none"
        if row and row.get("status") != "planned" and not unchanged and row.get("effect_class") != "none":
            raise Ambiguous(f"{step_id}: {row.get('status')} in {row.get('run_id')}, no receipt")

        self.renew()
        intent = uuid.uuid4().hex
        started = {
            "step_id": step_id, "run_id": self.id, "status": "started", "attempt": int(row.get("attempt", 0)) + 1,
            "input_hash": digest, "tool": tool, "effect_class": effect_class, "idempotency_key": key,
            "started_at": text(now()), "intent": intent,
        }
        # The row must still be as it was considered: of two runs one can call.
        when = {name: row.get(name) for name in ("intent", "status", "run_id")} if row else {"entry": None}
        if not self.ledger.write(self.task_id, entry, started, when, "intent", remove=["ended_at", "effect", "receipt"]):
            raise Ambiguous(f"{step_id}: another run has begun it")
        try:
            receipt, outcome = call(key), {"status": "succeeded"}
            if receipt:
                outcome["receipt"] = receipt
        except NothingChanged as error:
            failure, outcome = error, {"status": "failed_permanent", "effect": "none"}
        except Exception as error:  # it may have taken effect before it failed
            failure, outcome = error, {"status": "ambiguous"}
        else:
            failure = None
        outcome |= {"ended_at": text(now()), "intent": intent}
        if not self.ledger.write(self.task_id, entry, outcome, {"intent": intent, "receipt": None}, "intent"):
            raise Ambiguous(f"{step_id}: its row has moved on")
        if failure:
            raise failure
        return receipt

    def checkpoint(self, ref, step_id):
        """Say this after the state is durable under ref. Its lineage is this
        run alone, which is always safe; the Go kit knows when more may be in it."""
        self.header({
            "lease_until": text(now() + LEASE),
            "checkpoint": {
                "ref": ref, "step_id": step_id, "run_id": self.id, "lineage": [self.id],
                "workflow_version": self.workflow_version, "at": text(now()), **self.send,
            },
        })

    def fail(self, cause, code, message, step="", tool="", dependency="", retryable=False, phase="during_call"):
        """cause is timeout, dependency_unavailable, permission, invalid_input,
        output_contract, policy_limit, business_rule, ambiguous_effect or
        critical. Then let the message be redelivered or dead-lettered."""
        self.header(
            {
                "status": "failed",
                "last_error": {
                    "class": cause, "code": code, "message": message[:1000], "step": step, "tool": tool,
                    "dependency": dependency, "retryable": retryable, "phase": phase,
                },
            },
            remove=["lease_until"],
        )

    def complete(self):
        self.header({"status": "completed"}, remove=["lease_until"])
