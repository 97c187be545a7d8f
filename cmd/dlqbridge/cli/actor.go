package cli

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dlqbridge/dlqbridge"
	"github.com/dlqbridge/dlqbridge/adapters/awserr"
)

// maxActorNote bounds --actor, in bytes.
const maxActorNote = 200

// actor is who moves something: the principal that the cloud confirms, else
// the OS user, who never counts as the second person. It is asked when a move
// is made, so that reading needs neither STS nor a name.
func (s *session) actor(ctx context.Context) (dlqbridge.Actor, error) {
	if len(s.actorNote) > maxActorNote {
		return dlqbridge.Actor{}, usagef("", "--actor is %d bytes long, at most %d are kept", len(s.actorNote), maxActorNote)
	}
	who := dlqbridge.Actor{Name: s.p.User(), Note: s.actorNote}
	cloud, err := s.aws(ctx)
	if err != nil {
		return dlqbridge.Actor{}, err
	}
	client := sts.NewFromConfig(cloud, func(o *sts.Options) { o.RetryMaxAttempts = 2 })
	out, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil || aws.ToString(out.Arn) == "" {
		// Whoever cannot ask is not authenticated; the move itself shows
		// whether the caller may write.
		s.errors.Printf("dlqbridge: the cloud does not say who you are, so you act as OS user %s: %v\n", who.Name, awserr.Wrap(err))
		return who, nil
	}
	who.Name, who.Authenticated = *out.Arn, true
	return who, nil
}
