//go:build gocdk_drivers

package gocdk

// The drivers of a binary built with -tags gocdk_drivers. Each broker's comes
// with a client of that broker, so none is built in otherwise. To add one, get
// its module and add its line:
//
//	go get gocloud.dev/pubsub/rabbitpubsub    rabbit://
//	go get gocloud.dev/pubsub/natspubsub      nats://
//	go get gocloud.dev/pubsub/kafkapubsub     kafka://
//	(in gocloud.dev itself) pubsub/azuresb    azuresb://
import _ "gocloud.dev/pubsub/mempubsub" // mem://, to try it out
