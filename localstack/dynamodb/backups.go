package dynamodb

import "time"

// pointInTime is point-in-time recovery. The local cloud keeps the setting so
// that a doctor can look at it; it cannot restore.
type pointInTime struct {
	PointInTimeRecoveryStatus  string
	RecoveryPeriodInDays       int     `json:",omitempty"`
	EarliestRestorableDateTime float64 `json:",omitempty"`
	LatestRestorableDateTime   float64 `json:",omitempty"`
}

type backupsDescription struct {
	ContinuousBackupsStatus        string
	PointInTimeRecoveryDescription pointInTime
}

type backupsOutput struct{ ContinuousBackupsDescription backupsDescription }

type updateBackupsInput struct {
	TableName                        string
	PointInTimeRecoverySpecification *struct {
		PointInTimeRecoveryEnabled bool
		RecoveryPeriodInDays       int
	}
}

func (s *Service) describeBackups(in *tableName) (*backupsOutput, error) {
	t, err := s.backedUp(in.TableName)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.describeBackups(s.clock.Now()), nil
}

func (s *Service) updateBackups(in *updateBackupsInput) (*backupsOutput, error) {
	t, err := s.backedUp(in.TableName)
	if err != nil {
		return nil, err
	}
	want := in.PointInTimeRecoverySpecification
	switch {
	case want == nil:
		return nil, required("pointInTimeRecoverySpecification")
	case want.RecoveryPeriodInDays < 0 || want.RecoveryPeriodInDays > maxRecoveryDays:
		return nil, invalid("The recovery period must be between 1 and %d days", maxRecoveryDays)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := s.clock.Now()
	switch {
	case !want.PointInTimeRecoveryEnabled:
		t.backups = time.Time{}
	case t.backups.IsZero():
		t.backups = now
	}
	t.recoveryDays = maxRecoveryDays
	if want.RecoveryPeriodInDays > 0 {
		t.recoveryDays = want.RecoveryPeriodInDays
	}
	return t.describeBackups(now), nil
}

// maxRecoveryDays is the longest and the default recovery period (API
// Reference, PointInTimeRecoverySpecification).
const maxRecoveryDays = 35

func (t *table) describeBackups(now time.Time) *backupsOutput {
	d := backupsDescription{"ENABLED", pointInTime{PointInTimeRecoveryStatus: "DISABLED"}}
	if !t.backups.IsZero() {
		earliest := t.backups
		if limit := now.AddDate(0, 0, -t.recoveryDays); limit.After(earliest) {
			earliest = limit
		}
		d.PointInTimeRecoveryDescription = pointInTime{"ENABLED", t.recoveryDays, seconds(earliest), seconds(now)}
	}
	return &backupsOutput{d}
}

// seconds is the time as the JSON protocol writes it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// backedUp finds a table for a backup call, which has its own word for one
// that is not there (API Reference, DescribeContinuousBackups).
func (s *Service) backedUp(name string) (*table, error) {
	t, err := s.named(name)
	if err == nil || s.lookup(name) != nil || checkTableName(name) != nil {
		return t, err
	}
	refusal := noTable()
	refusal.Type = ownPrefix + "TableNotFoundException"
	refusal.Message = "Table not found: " + name
	return nil, refusal
}
