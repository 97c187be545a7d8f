package dynamodb

import "sync/atomic"

// Sizes of a capacity unit (Developer Guide, "DynamoDB read and write
// operations"): a write unit is 1 KB, a strongly consistent read unit 4 KB, an
// eventually consistent read costs half.
const (
	writeUnit = 1024
	readUnit  = 4096
)

func writeUnits(size int) int { return max(1, (size+writeUnit-1)/writeUnit) }

// readHalves is the cost of reading size bytes, in half units.
func readHalves(size int, consistent bool) int {
	units := max(1, (size+readUnit-1)/readUnit)
	if consistent {
		return 2 * units
	}
	return units
}

// indexCost is what one index took part in a call's cost, in half units.
type indexCost struct {
	name   string
	local  bool
	halves int
}

// writeCost is what a write costs, in whole write units.
type writeCost struct {
	table   int
	indexes []indexCost
}

func (c *writeCost) index(i *index, units int) {
	c.indexes = append(c.indexes, indexCost{i.IndexName, i.local, 2 * units})
}

// meter counts the units that a table took in one call.
type meter struct {
	table   string
	halves  int // of the table itself
	indexes []indexCost
	writes  bool
}

func (m *meter) write(c writeCost) {
	m.writes = true
	m.halves += 2 * c.table
	for _, i := range c.indexes {
		m.index(i)
	}
}

func (m *meter) index(cost indexCost) {
	for at := range m.indexes {
		if m.indexes[at].name == cost.name {
			m.indexes[at].halves += cost.halves
			return
		}
	}
	m.indexes = append(m.indexes, cost)
}

func (m *meter) total() int {
	total := m.halves
	for _, i := range m.indexes {
		total += i.halves
	}
	return total
}

// units counts what the whole service has served, in half units.
type units struct{ read, write atomic.Int64 }

func (u *units) add(m *meter) {
	if m.writes {
		u.write.Add(int64(m.total()))
	} else {
		u.read.Add(int64(m.total()))
	}
}

// appendHalves writes half units as the JSON number of units.
func appendHalves(dst []byte, halves int) []byte {
	whole := numberOf(halves / 2).append(dst)
	if halves%2 == 1 {
		return append(whole, ".5"...)
	}
	return append(whole, ".0"...)
}

// append writes a ConsumedCapacity; detail is INDEXES or TOTAL.
func (m *meter) append(dst []byte, detail string) []byte {
	a := answer{append(dst, '{')}
	a.name("TableName")
	a.buf = appendText(a.buf, m.table)
	a.name("CapacityUnits")
	a.buf = appendHalves(a.buf, m.total())
	if detail == "INDEXES" {
		a.name("Table")
		a.buf = appendUnits(a.buf, m.halves)
		for _, group := range []struct {
			name  string
			local bool
		}{{"GlobalSecondaryIndexes", false}, {"LocalSecondaryIndexes", true}} {
			m.appendIndexes(&a, group.name, group.local)
		}
	}
	return append(a.buf, '}')
}

func (m *meter) appendIndexes(a *answer, name string, local bool) {
	first := true
	for _, i := range m.indexes {
		if i.local != local {
			continue
		}
		if first {
			a.name(name)
			a.buf = append(a.buf, '{')
		} else {
			a.buf = append(a.buf, ',')
		}
		first = false
		a.buf = appendText(a.buf, i.name)
		a.buf = append(a.buf, ':')
		a.buf = appendUnits(a.buf, i.halves)
	}
	if !first {
		a.buf = append(a.buf, '}')
	}
}

func appendUnits(dst []byte, halves int) []byte {
	dst = append(dst, `{"CapacityUnits":`...)
	return append(appendHalves(dst, halves), '}')
}

// capacity adds the ConsumedCapacity that the caller asked for.
func (a *answer) capacity(detail string, m *meter) {
	if detail == "INDEXES" || detail == "TOTAL" {
		a.name("ConsumedCapacity")
		a.buf = m.append(a.buf, detail)
	}
}

// capacities adds one ConsumedCapacity per table.
func (a *answer) capacities(detail string, meters []*meter) {
	if detail == "INDEXES" || detail == "TOTAL" {
		a.name("ConsumedCapacity")
		a.buf = appendList(a.buf, meters, func(dst []byte, m *meter) []byte { return m.append(dst, detail) })
	}
}
