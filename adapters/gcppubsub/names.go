package gcppubsub

import (
	"fmt"
	"regexp"
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

// The form of an id (the proto, Topic.name): a letter first, 3 to 255
// characters of this set, not beginning with "goog"; and of a project, with
// the colon of old domain projects.
var (
	resourceID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9\-_.~+%]{2,254}$`)
	projectID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9\-.:]{0,99}$`)
)

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
	case !projectID.MatchString(project):
		return "", fmt.Errorf("%w: %.300q cannot be a project", dlqbridge.ErrInvalid, project)
	case !resourceID.MatchString(name), strings.HasPrefix(name, "goog"):
		return "", fmt.Errorf("%w: %.300q cannot be the name of one of the %s", dlqbridge.ErrInvalid, name, kind)
	}
	return "projects/" + project + "/" + kind + "/" + name, nil
}

// shortName is the last part of a resource name.
func shortName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
