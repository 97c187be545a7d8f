#!/bin/sh
# Makes the queues, the ledger and the topics of the examples in the emulators of compose.yaml,
# or in any endpoints that the environment names. Running it again is fine.
# An empty PUBSUB_EMULATOR_HOST leaves Pub/Sub out.
set -eu

endpoint=${AWS_ENDPOINT_URL:-http://127.0.0.1:4566}
pubsub=${PUBSUB_EMULATOR_HOST-127.0.0.1:8085}
project=${PUBSUB_PROJECT_ID:-dlqbridge-local}

export AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID:-local} AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY:-local}
export AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-us-east-1} AWS_PAGER=

# Older commands ignore AWS_ENDPOINT_URL.
cloud() { aws --endpoint-url "$endpoint" --output text "$@"; }

dead=$(cloud sqs create-queue --queue-name orders-dlq --query QueueUrl)
arn=$(cloud sqs get-queue-attributes --queue-url "$dead" --attribute-names QueueArn --query Attributes.QueueArn)
cloud sqs create-queue --queue-name orders --query QueueUrl --attributes \
  "{\"RedrivePolicy\":\"{\\\"deadLetterTargetArn\\\":\\\"$arn\\\",\\\"maxReceiveCount\\\":3}\"}"

cloud dynamodb describe-table --table-name agent-ledger --query Table.TableName 2>/dev/null ||
  cloud dynamodb create-table --table-name agent-ledger --billing-mode PAY_PER_REQUEST --query TableDescription.TableName \
    --attribute-definitions AttributeName=task_id,AttributeType=S AttributeName=entry,AttributeType=S \
    --key-schema AttributeName=task_id,KeyType=HASH AttributeName=entry,KeyType=RANGE

[ -n "$pubsub" ] || exit 0

# 409 is "exists already", which is what we want.
put() {
  status=$(curl -s -o /dev/null -w '%{http_code}' -X PUT -H 'Content-Type: application/json' -d "$2" "http://$pubsub/v1/projects/$project/$1")
  case $status in
    200 | 409) echo "$1" ;;
    *) echo "setup.sh: making $1 answered $status" >&2; exit 1 ;;
  esac
}

put topics/invoices '{}'
put topics/invoices-dead '{}'
put subscriptions/invoices-dead "{\"topic\":\"projects/$project/topics/invoices-dead\"}"
put subscriptions/invoices "{\"topic\":\"projects/$project/topics/invoices\",\"deadLetterPolicy\":{\"deadLetterTopic\":\"projects/$project/topics/invoices-dead\",\"maxDeliveryAttempts\":5}}"
