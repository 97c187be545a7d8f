package pubsub

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// The proto, Topic.name and Subscription.name: starts with a letter, 3 to 255
// characters of this set, and does not start with "goog".
var (
	resourceID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}$`)
	projectID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9\-.:]*$`)
)

const (
	topicKind        = "topics"
	subscriptionKind = "subscriptions"
	deletedTopic     = "_deleted-topic_" // the proto, Subscription.topic
)

// checkName refuses what is no full name of such a resource.
func checkName(name, kind string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "projects" || parts[2] != kind || !projectID.MatchString(parts[1]) ||
		!resourceID.MatchString(parts[3]) || strings.HasPrefix(parts[3], "goog") {
		return invalid("Invalid resource name given (name=%s). Refer to https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names for more information.", name)
	}
	return nil
}

// checkProject reads the name of a project.
func checkProject(name string) error {
	id, ok := strings.CutPrefix(name, "projects/")
	if !ok || !projectID.MatchString(id) {
		return invalid("Invalid project resource name given (name=%s).", name)
	}
	return nil
}

// projectOf is the second part of a checked name.
func projectOf(name string) string {
	return strings.Split(name, "/")[1]
}

// shortName is the last part of a name.
func shortName(name string) string {
	return name[strings.LastIndexByte(name, '/')+1:]
}

// Labels (page "Requirements for labels" of the resource manager): at most 64,
// names of 1 to 63 characters beginning with a lower-case letter, values up to
// 63, of lower-case letters, digits, dashes and underscores.
const (
	maxLabels      = 64
	maxLabelLength = 63
)

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid("There are %d labels; at most %d are allowed.", len(labels), maxLabels)
	}
	for name, value := range labels {
		if name == "" || utf8.RuneCountInString(name) > maxLabelLength || utf8.RuneCountInString(value) > maxLabelLength ||
			name != strings.ToLower(name) || value != strings.ToLower(value) ||
			strings.ContainsAny(name+value, " ./:+%~") || strings.ContainsAny(name[:1], "0123456789-_") {
			return invalid("Invalid label (key=%s, value=%s).", name, value)
		}
	}
	return nil
}
