package gcppubsub

import (
	"fmt"
	"strings"

	"github.com/dlqbridge/dlqbridge"
)

// Kinds of resources as their names spell them.
const (
	subscriptionKind = "subscriptions"
	topicKind        = "topics"
)

// deletedTopic stands where a deleted topic was (the proto, Subscription.topic).
const deletedTopic = "_deleted-topic_"

// isResourceID: a letter first, 3 to 255 characters of this set (the proto,
// Topic.name).
func isResourceID(s string) bool {
	return len(s) >= 3 && len(s) <= 255 && isLetter(s[0]) && consistsOf(s, "-_.~+%")
}

// isProjectID: a letter or digit first, at most 100 characters, with the colon of
// old domain projects.
func isProjectID(s string) bool {
	return s != "" && len(s) <= 100 && consistsOf(s[:1], "") && consistsOf(s, "-.:")
}

// consistsOf says whether s has letters, digits and these others only. It reads
// each letter's source, so it is no regular expression.
func consistsOf(s, others string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (s[i] < '0' || s[i] > '9') && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// fullName makes the resource name of a short or a full one.
func fullName(name, project, kind string) (string, error) {
	if strings.Contains(name, "/") {
		part := strings.Split(name, "/")
		if len(part) != 4 || part[0] != "projects" || part[2] != kind {
			return "", fmt.Errorf("%w: %.300q is no name of the form projects/PROJECT/%s/NAME", dlqbridge.ErrInvalid, name, kind)
		}
		project, name = part[1], part[3]
	}
	switch {
	case project == "":
		return "", fmt.Errorf("%w: %.300q is a short name, and Options.Project is not set", dlqbridge.ErrInvalid, name)
	case !isProjectID(project):
		return "", fmt.Errorf("%w: %.300q cannot be a project", dlqbridge.ErrInvalid, project)
	case !isResourceID(name), strings.HasPrefix(name, "goog"):
		return "", fmt.Errorf("%w: %.300q cannot be the name of one of the %s", dlqbridge.ErrInvalid, name, kind)
	}
	return "projects/" + project + "/" + kind + "/" + name, nil
}

// shortName is the last part of a resource name.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
