"""What examples_test.go runs against the local cloud: one task per story."""

import sys
import threading
from datetime import timedelta

import boto3
from worker import Ambiguous, InputMismatch, Ledger, NothingChanged, Refused, now, text

ledger = Ledger(
    boto3.client(
        "dynamodb", endpoint_url=sys.argv[1], region_name="us-east-1",
        aws_access_key_id="local", aws_secret_access_key="local",
    ),
    sys.argv[2],
)


def expect(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"no {error.__name__}")


def broken(_key):
    raise ConnectionError("cut while waiting for the answer")


def refused(_key):
    raise NothingChanged("card declined")


# Done, with a checkpoint.
run = ledger.begin("done", "m1", task_type="order", workflow_version="3")
assert run.step("0001#charge", "charge_card", {"cents": 4200}, lambda key: "ch_" + key) == "ch_done:0001#charge"
run.checkpoint("s3://state/1", "0001#charge")
assert run.step("0001#charge", "charge_card", {"cents": 4200}, broken) == "ch_done:0001#charge"
expect(InputMismatch, lambda: run.step("0001#charge", "charge_card", {"cents": 1}, broken))
assert not expect(Refused, lambda: ledger.begin("done", "m1")).ack
run.complete()
assert expect(Refused, lambda: ledger.begin("done", "m1")).ack

# Failed while calling: in doubt.
run = ledger.begin("doubt", "m1")
expect(ConnectionError, lambda: run.step("0001#charge", "charge_card", {}, broken))
expect(Ambiguous, lambda: run.step("0001#charge", "charge_card", {}, broken))
run.fail("ambiguous_effect", "ECONNRESET", "cut", step="0001#charge", tool="charge_card", dependency="payments")

# Refused by the tool: nothing changed; and again after a redrive.
run = ledger.begin("refused", "m1")
expect(NothingChanged, lambda: run.step("0001#charge", "charge_card", {}, refused))
run.fail("business_rule", "DECLINED", "card declined")
mark = {"rec": "r_a", "job": "j_1", "n": 1, "act": "retry"}
run = ledger.begin("refused", "m2", mark)
run.fail("business_rule", "DECLINED", "card declined")
assert expect(Refused, lambda: ledger.begin("refused", "m3", mark)).ack
ledger.begin("refused", "m2", mark)  # the same message again; left running

# Has a receipt, then fails; the next worker is a Go one.
run = ledger.begin("handed", "m1")
run.step("0001#charge", "charge_card", {"to": "Zoë <z@example.com>", "cents": 4200, "a": [1, None, True]}, lambda key: "ch_handed")
run.fail("timeout", "ETIMEDOUT", "the next step")

# Two deliveries at once: one of them calls.
calls = []


def deliver():
    try:
        run = ledger.begin("race", "m1")
        run.step("0001#charge", "charge_card", {}, lambda key: calls.append(key) or "ch_1")
        run.complete()
    except (Refused, Ambiguous):
        pass


threads = [threading.Thread(target=deliver) for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert len(calls) == 1, calls

# Past its time: not begun, and not done with.
assert not expect(Refused, lambda: ledger.begin("late", "m1", valid_until=text(now() - timedelta(seconds=1)))).ack

# Began nothing.
ledger.begin("nothing", "m1").fail("timeout", "ETIMEDOUT", "model did not answer", phase="before_call", retryable=True)
print("ok")
