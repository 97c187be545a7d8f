package langgraph

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dlqbridge/dlqbridge/adapters/awserr/awsread"
)

// The layout is that of langchain-ai/langchain-aws, libs/langgraph-checkpoint-aws,
// checkpoint/dynamodb/unified_repository.py and storage_strategy.py (read
// 2026-11-30). The keys are PK and SK, both strings.
const (
	keyHash, keyRange = "PK", "SK"
	// The range key of each payload.
	chunkRange = "CHUNK"
	inDynamoDB = "DYNAMODB"
	channelErr = "__error__"
	// The pseudo-node that takes the graph's input.
	startNode = "__start__"
)

func checkpointHash(thread string) string { return "CHECKPOINT_" + thread }

func checkpointRange(ns, id string) string { return ns + "#" + id }

func writesHash(thread, ns, id string) string { return "WRITES_" + thread + "#" + ns + "#" + id }

// special are the channels of LangGraph itself, each at a fixed index below zero
// (langchain-ai/langgraph, libs/checkpoint, checkpoint/base/__init__.py,
// WRITES_IDX_MAP, read 2026-11-30).
var special = []string{channelErr, "__scheduled__", "__interrupt__", "__resume__"}

// checkpoint is one checkpoint item.
type checkpoint struct {
	ns, id           string
	location, refKey string
	expires          time.Time // zero: never
}

// decodeCheckpoint reads what names a checkpoint; false if it has no name.
func decodeCheckpoint(it awsread.Item) (checkpoint, bool) {
	c := checkpoint{
		ns: text(it["ns"]), id: text(it["id"]), location: text(it["ref_loc"]), refKey: text(it["ref_key"]), expires: ttl(it["ttl"]),
	}
	// The key decides: the attributes are copies of it.
	key := text(it[keyRange])
	i := strings.LastIndexByte(key, '#')
	if i < 0 || i == len(key)-1 {
		return checkpoint{}, false
	}
	c.ns, c.id = key[:i], key[i+1:]
	return c, true
}

// write is one pending write.
type write struct {
	task, channel, node string
	special             bool
}

// decodeWrite reads one pending write; false if it names no task.
func decodeWrite(it awsread.Item) (write, bool) {
	task, idx, ok := strings.Cut(text(it[keyRange]), "#")
	if !ok || task == "" {
		return write{}, false
	}
	w := write{task: task, channel: text(it["channel"]), node: nodeOf(text(it["task_path"]))}
	n, err := strconv.Atoi(idx)
	// Only a channel that a node writes to, at an index from 0, says that the
	// node has finished; whatever else it is says less.
	w.special = err != nil || n < 0 || w.channel == "" || slices.Contains(special, w.channel)
	if n == -1 && err == nil {
		w.channel = channelErr
	}
	return w, true
}

// nodeOf is the node that a task path names: "~__pregel_pull, charge". Other
// paths (tasks that were sent or called) name none.
func nodeOf(path string) string {
	node, pulled := strings.CutPrefix(path, "~__pregel_pull, ")
	if !pulled || strings.Contains(node, ", ") {
		return ""
	}
	return node
}

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// ttl is a time in seconds since 1970.
func ttl(v types.AttributeValue) time.Time {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || seconds <= 0 || seconds >= 253402300800 { // the year 10000
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// gregorian is how many 100 ns lie between the beginnings of UUID time
// (1582-10-15) and of 1970 (RFC 9562, section 5.1, read 2026-11-30).
const gregorian = 0x01B21DD213814000

// timeOf is the time that a UUID of version 6 holds; zero for any other text.
func timeOf(id string) time.Time {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[14] != '6' || id[18] != '-' || id[23] != '-' {
		return time.Time{}
	}
	high, err := strconv.ParseUint(id[:8]+id[9:13], 16, 64)
	low, errLow := strconv.ParseUint(id[15:18], 16, 64)
	ticks := int64(high<<12 | low)
	if err != nil || errLow != nil || ticks < gregorian {
		return time.Time{}
	}
	since := ticks - gregorian
	return time.Unix(since/1e7, since%1e7*100).UTC()
}
