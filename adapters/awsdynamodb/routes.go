package awsdynamodb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	attrRoute  = "route"
	attrShards = "shards"
)

// enroll notes, once per process and route, that records of this route may be
// in the work index, and over how many shards. So lists find records of routes
// that are configured no more, and of a time with more shards. It is written
// before the first record is.
func (s *Store) enroll(ctx context.Context, route string) error {
	if _, known := s.routes.Load(route); known {
		return nil
	}
	k := key{routesPK, "route#" + keyPart(route)}
	there, err := s.get(ctx, k)
	if err != nil {
		return fmt.Errorf("look up route %q: %w", route, err)
	}
	if int(numberOf(there, attrShards)) < s.shards {
		it := k.attributes()
		it[attrRoute] = text(route)
		it[attrShards] = number(int64(s.shards))
		it[attrToken] = text(newToken())
		c := condition{
			"attribute_not_exists(#n) OR #n < :n",
			map[string]string{"#n": attrShards},
			item{":n": number(int64(s.shards))},
		}
		if err := s.putIf(ctx, it, c); err != nil && !isRefused(err) {
			return fmt.Errorf("enroll route %q: %w", route, err)
		}
	}
	s.routes.Store(route, true)
	return nil
}

// registry reads which routes there may be records of, and the highest number
// of shards that any process has used.
func (s *Store) registry(ctx context.Context) (routes []string, shards int, err error) {
	shards = s.shards
	err = s.query(ctx, partition(s.records, routesPK, ""), func(it item) bool {
		if _, ok := it[attrRoute].(*types.AttributeValueMemberS); ok {
			routes = append(routes, textOf(it, attrRoute))
			shards = max(shards, min(int(numberOf(it, attrShards)), maxShards))
		}
		return true
	})
	return routes, shards, err
}
