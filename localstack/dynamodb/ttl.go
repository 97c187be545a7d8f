package dynamodb

type timeToLive struct {
	AttributeName string
	Enabled       bool
}

type updateTimeToLiveInput struct {
	TableName               string
	TimeToLiveSpecification *timeToLive
}

type updateTimeToLiveOutput struct {
	TimeToLiveSpecification *timeToLive
}

func (s *Service) updateTimeToLive(in *updateTimeToLiveInput) (*updateTimeToLiveOutput, error) {
	t, err := s.named(in.TableName)
	if err != nil {
		return nil, err
	}
	want := in.TimeToLiveSpecification
	switch {
	case want == nil:
		return nil, required("timeToLiveSpecification")
	case want.AttributeName == "":
		return nil, constraint("", "timeToLiveSpecification.attributeName", "Member must have length greater than or equal to 1")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case want.Enabled && t.ttl != "":
		return nil, invalid("TimeToLive is already enabled")
	case !want.Enabled && t.ttl == "":
		return nil, invalid("TimeToLive is already disabled")
	case !want.Enabled && t.ttl != want.AttributeName:
		return nil, invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttl)
	}
	t.ttl, t.expiring = "", sorted{}
	if want.Enabled {
		t.ttl = want.AttributeName
		for r := range t.rows.rows(span{}, false) {
			t.expire(nil, r)
		}
	}
	return &updateTimeToLiveOutput{want}, nil
}

type timeToLiveDescription struct {
	AttributeName    string `json:",omitempty"`
	TimeToLiveStatus string
}

type describeTimeToLiveOutput struct{ TimeToLiveDescription timeToLiveDescription }

func (s *Service) describeTimeToLive(in *tableName) (*describeTimeToLiveOutput, error) {
	t, err := s.named(in.TableName)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.ttl == "" {
		return &describeTimeToLiveOutput{timeToLiveDescription{TimeToLiveStatus: "DISABLED"}}, nil
	}
	return &describeTimeToLiveOutput{timeToLiveDescription{t.ttl, "ENABLED"}}, nil
}
